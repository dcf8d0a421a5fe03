"""The figures that the paper prints, and how the sets and systems are written."""

from __future__ import annotations

from collections.abc import Mapping

from ..experiments.systems import FOREST, LINEAR, SAME_PAST

# Table 2: 1-NN accuracy in percent, mean and standard deviation of five runs.
TABLE_2: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "scma": {
        "ED": (97.5, 0.6),
        "MDTW": (98.5, 0.5),
        "LDMLT": (97.4, 0.5),
        "LMNN": (99.1, 0.4),
        "MLAT-paper": (99.5, 0.1),
    },
    "arem": {
        "ED": (75.3, 1.2),
        "MDTW": (76.4, 1.9),
        "LDMLT": (84.4, 2.1),
        "LMNN": (73.3, 1.5),
        "MLAT-paper": (80.8, 0.8),
    },
    "emg": {
        "ED": (61.8, 2.3),
        "MDTW": (65.4, 1.5),
        "LDMLT": (65.2, 2.8),
        "LMNN": (65.9, 2.1),
        "MLAT-paper": (69.3, 1.7),
    },
    "vicon": {
        "ED": (73.3, 1.9),
        "MDTW": (75.8, 2.1),
        "LDMLT": (72.2, 3.3),
        "LMNN": (81.5, 2.6),
        "MLAT-paper": (84.9, 1.8),
    },
}

# Table 3: points of accuracy gained by training on all windows instead of 100 per label.
TABLE_3: Mapping[str, Mapping[str, float]] = {
    "scma": {"ED": 1.02, "MDTW": 0.40, "LDMLT": 1.33, "LMNN": 0.20},
    "arem": {"ED": -0.21, "MDTW": 0.52, "LDMLT": 1.30, "LMNN": 0.41},
    "emg": {"ED": 5.34, "MDTW": 3.52, "LDMLT": -1.4, "LMNN": 2.43},
    "vicon": {"ED": 3.27, "MDTW": -0.13, "LDMLT": -2.2, "LMNN": 2.33},
}

# How people and papers write the sets and the systems.
SET_TITLES: Mapping[str, str] = {
    "scma": "SCMA",
    "arem": "AReM",
    "emg": "EMG",
    "vicon": "Vicon",
    "emg_gestures": "EMG gestures",
    "phone_watch": "phone, watch",
    "wisdm_watch": "WISDM watch",
    "ecg_rhythm": "ECG rhythm",
    "gesture_phase": "gesture phase",
    "room_occupancy": "room",
}
SYSTEM_TITLES: Mapping[str, str] = {
    "MLAT-paper": "MLAT, paper",
    "MLAT": "MLAT, ours",
    "LSTM": "siamese LSTM",
    FOREST: "forest on our features",
    LINEAR: "linear model on our features",
    "ED-filtered": "ED + filter",
    "MLAT-auto": "MLAT, auto",
    "MLAT-auto-filtered": "MLAT, auto + filter",
}


def set_title(name: str) -> str:
    return SET_TITLES.get(name, name)


def system_title(name: str) -> str:
    rival = name.removesuffix(SAME_PAST)
    return SYSTEM_TITLES.get(rival, rival) + (", same past" if rival != name else "")
