"""Cycles of a step of exported C on a Cortex-M4 and an M0+, as an emulator runs it.

The program is compiled for the processor and runs under qemu one instruction at a time. qemu says
where each is, not how long it takes. Cycles are those of the processors' reference manuals for
instructions from memory without wait states (ARM DDI 0439 and DDI 0484): what a board's flash adds
is not in them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mlat.base.checks import Floats, Ints
from mlat.export.c_source import CSource

PREFIX, EMULATOR = "arm-none-eabi-", "qemu-arm"
CPUS = {
    "cortex-m4": ("-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"),
    "cortex-m0": ("-mcpu=cortex-m0plus",),
}
# Without an operating system but its calls to write and to end.
MAIN = """
{before}
static signed char states[{n}];
__attribute__((noinline)) int one_step(int i) {{ {step} }}
static int call(int number, int a, const void *b, int c)
{{
    register int r0 __asm__("r0") = a;
    register const void *r1 __asm__("r1") = b;
    register int r2 __asm__("r2") = c;
    register int r7 __asm__("r7") = number;
    __asm__ volatile("svc 0" : "+r"(r0) : "r"(r1), "r"(r2), "r"(r7) : "memory");
    return r0;
}}
void _start(void)
{{
    int i;
    {begin}
    for (i = 0; i < {n}; i++) {{
        states[i] = (signed char)one_step(i);
    }}
    call(4, 1, states, {n});
    call(1, 0, 0, 0);
}}
"""
OF_MLAT = """#include "mlat.h"
static const mlat_real steps[][MLAT_CHANNELS] = {{{rows}}};
static mlat m;
static mlat_out out;"""


class Counted(NamedTuple):
    """Of the last step: instructions and cycles, by function, too; bytes of flash; all states."""

    instructions: int
    cycles: float
    flash: int
    states: Ints
    by_function: Mapping[str, float]


def can_count() -> bool:
    """Whether there are a compiler and an emulator."""
    return all(map(shutil.which, (f"{PREFIX}gcc", EMULATOR)))


def counted(code: CSource, values: Floats, cpu: str) -> Counted:
    """The last of some steps (T, d), of which the others fill the window."""
    values = values if code.input_bits is None else np.rint(np.ldexp(values, code.input_bits))
    steps = (", ".join(f"(mlat_real){value!r}" for value in row) for row in values.tolist())
    rows = "{" + "}, {".join(steps) + "}"
    main = MAIN.format(
        before=OF_MLAT.format(rows=rows),
        n=len(values),
        begin="mlat_init(&m);",
        step="return mlat_push(&m, steps[i], &out);",
    )
    return counted_of({**code.files(), "main.c": main}, cpu)


def counted_of(sources: Mapping[str, str], cpu: str, include: Sequence[Path] = ()) -> Counted:
    """The last of the steps of a program like ``MAIN``. Its flash is all but ``main.c``'s steps."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, text in sources.items():
            (folder / name).write_text(text, encoding="utf-8")
        flags = ("-mthumb", *CPUS[cpu], "-O2", "-std=gnu99", "-w", *(f"-I{one}" for one in include))
        files = [name for name in sources if name.endswith(".c")]
        command = [f"{PREFIX}gcc", *flags, "-ffunction-sections", "-fdata-sections"]
        command += ["-Wl,--gc-sections", "-nostartfiles", *files, "-o", "run.elf", "-lm"]
        subprocess.run(command, cwd=folder, check=True)
        tools = {
            name: subprocess.run(
                [f"{PREFIX}{name}", option, "run.elf"], cwd=folder, check=True,
                capture_output=True, text=True,
            ).stdout
            for name, option in (("nm", "-S"), ("objdump", "-d"))
        }  # fmt: skip
        states = subprocess.run(
            [EMULATOR, "./run.elf"], cwd=folder, capture_output=True, check=True
        )
        trace = _last_step(folder, tools["objdump"])
    costs, function, loads = _costs(tools["objdump"], cpu)
    by_function: dict[str, float] = {}
    total = n = 0.0
    for (at, after), times in trace.items():
        # A Cortex-M4 has a load right after another memory access in one cycle.
        follows = cpu == "cortex-m4" and at in loads and loads.get(after, False)
        cycles = times * (costs[at](after) - follows)
        by_function[function[at]] = by_function.get(function[at], 0.0) + cycles
        total, n = total + cycles, n + times
    sizes = re.findall(r"^\w+ (\w+) [tTrRdD] (\S+)$", tools["nm"], re.MULTILINE)
    flash = sum(int(size, 16) for size, name in sizes if name not in ("steps", "_start"))
    told = np.frombuffer(states.stdout, np.int8).astype(np.int64)
    return Counted(int(n), total, flash, told, by_function)


def _last_step(folder: Path, listing: str) -> Counter[tuple[int, int]]:
    """How often each instruction ran, and the one after it, since ``one_step`` began last."""
    begin = re.search(r"^([0-9a-f]+) <one_step>:", listing, re.MULTILINE)
    assert begin is not None
    command = [EMULATOR, *_one_by_one(), "-d", "nochain,exec", "./run.elf"]
    mark = b"/%08x/" % int(begin[1], 16)
    lines: list[bytes] = []
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if mark in line:
                lines = []
            lines.append(line)
    places = [int(line.split(b"/", 2)[1], 16) for line in lines if line.startswith(b"Trace")]
    return Counter(pairwise(places))


def _one_by_one() -> Iterable[str]:
    said = subprocess.run([EMULATOR, "-help"], capture_output=True, text=True, check=False).stdout
    return ["-one-insn-per-tb" if "-one-insn-per-tb" in said else "-singlestep"]


def _costs(
    listing: str, cpu: str
) -> tuple[dict[int, Callable[[int], float]], dict[int, str], dict[int, bool]]:
    """Of each instruction by its place: cycles given where the next one is, its function, and of
    single memory accesses whether each is a load."""
    of_cpu = _cycles_m4 if cpu == "cortex-m4" else _cycles_m0
    costs: dict[int, Callable[[int], float]] = {}
    functions: dict[int, str] = {}
    loads: dict[int, bool] = {}
    name = ""
    for line in listing.splitlines():
        if match := re.match(r"[0-9a-f]+ <(.*)>:", line):
            name = match[1]
        if match := re.match(r"\s*([0-9a-f]+):\s+((?:[0-9a-f]{4} ?)+)\s+(\S+)\s*(.*)", line):
            place, size = int(match[1], 16), len(match[2].replace(" ", "")) // 2
            operation, operands = match[3].removesuffix(".n").removesuffix(".w"), match[4]
            functions[place] = name

            def cost(
                after: int, op: str = operation, on: str = operands, end: int = place + size
            ) -> float:
                return of_cpu(op, on, after != end)

            costs[place] = cost
            if re.match(r"v?(ldr|str)", operation) and not operation.endswith("d"):
                loads[place] = "ldr" in operation
    return costs, functions, loads


def _listed(operands: str) -> int:
    """Registers in braces."""
    inside = operands[operands.find("{") + 1 : operands.find("}")]
    n = 0
    for part in inside.split(","):
        ends = re.findall(r"\d+", part) if "-" in part else []
        n += int(ends[1]) - int(ends[0]) + 1 if ends else 1
    return n


def _cycles_m4(op: str, operands: str, jumps: bool) -> float:
    """Cortex-M4: a taken branch refills the pipeline, 2 more."""
    refill = 2.0 * jumps
    if op in ("push", "pop") or op.startswith(("ldm", "stm", "vpush", "vpop", "vldm", "vstm")):
        return 1 + _listed(operands) + refill
    if op.startswith(("ldrd", "strd")):
        return 3 + refill
    if op.startswith(("ldr", "vldr")):
        return 2 + refill
    if op.startswith(("udiv", "sdiv")):
        return 7.0
    if op.startswith(("vdiv", "vsqrt")):
        return 14.0
    if op.startswith(("vmla", "vmls", "vfma", "vfms", "vnml", "vnmls")):
        return 3.0
    return 1 + refill


def _cycles_m0(op: str, operands: str, jumps: bool) -> float:
    """Cortex-M0+ with the multiplier of one cycle."""
    if op in ("push", "pop") or op.startswith(("ldm", "stm")):
        return 1 + _listed(operands) + 2.0 * jumps
    if op.startswith(("ldr", "str")):
        return 2.0
    if op in ("bl", "blx"):
        return 3.0
    return 1 + 1.0 * jumps
