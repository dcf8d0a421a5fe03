"""Benchmarks: each is a function of a module here, and a command ``mlat-lab bench NAME``."""

# What a benchmark is called: its module and function, and what it measures.
BENCHMARKS = {
    "fit": ("fit.learning", "Learning a metric, beside metric-learn."),
    "dtw": ("dtw.searching", "Nearest neighbours under dynamic time warping."),
    "live": ("live.stepping", "Live classification: a step, many streams, a soak."),
    "predict": ("predict.predicting", "Predicting a stream, beside scikit-learn's search."),
    "device": ("device.on_device", "Learning on a device of PyTorch."),
    "export": ("export.in_c", "A model in C: bytes, time, instructions, same states."),
    "river": ("river.progressive", "Learning step by step, beside river's classifiers."),
    "scale": ("scale.many_windows", "Many windows: learning from them, and searching them live."),
    "spark": ("spark.on_spark", "Many live streams on Spark."),
    "vicon": ("vicon.many_steps", "Very many windows of a real stream: learning and live steps."),
    "solvers": ("fit.losses", "The losses at which the solvers end."),
    "lmnn-dtw": ("dtw.aligning", "LMNN-DTW: one alignment, and a whole fit."),
    "deep": ("deep.epochs", "DECADE and the siamese LSTM: an epoch, on any device."),
    "export-fuzz": ("export_fuzz.fuzz", "C beside predict on bad streams, with sanitisers."),
    "export-cycles": ("export_streams.constants", "Cycles of each kind of work of exported C."),
    "export-shares": ("export_streams.shares", "Decisions said to stay, beside new steps."),
    "export-streams": ("export_streams.on_streams", "Models on boards, beside emlearn's."),
    "committee": ("people.committee", "The committee beside its experts, on development people."),
    "defaults": ("people.defaults", "What each default of MLAT is worth, on development people."),
    "lmnn-dtw-people": ("people.lmnn_dtw", "LMNN-DTW's accuracy on development people."),
    "filter": ("people.filter_delay", "What the causal filter gains, and how late it is."),
    "demo": ("seeds.demo", "The demo on other seeds, and with more labelled runs."),
    "panels": ("seeds.panels", "aeon's sets: the nearest series, and rockets; needs aeon."),
}
