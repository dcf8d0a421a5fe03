"""The exported C as WebAssembly, for a browser or Node.

The compiler is zig's, from the package ziglang. The module imports nothing: no system, and of a C
library only what the compiler brings itself.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from base64 import b64encode
from pathlib import Path

from ..base.errors import InputError, require_package
from .c_source import CSource, text_of

# All that the C uses of these headers, which a target without a system lacks.
HEADERS = {
    "math.h": "float fabsf(float); float sqrtf(float); float logf(float); float expf(float);\n"
    "double fabs(double); double sqrt(double); double log(double); double exp(double);\n",
    "string.h": "#include <stddef.h>\nvoid *memset(void *, int, size_t);\n",
}
FLAGS = ["-target", "wasm32-freestanding", "-O2", "-s", "-Wl,--no-entry"]


def browser_files(code: CSource) -> dict[str, bytes]:
    """``mlat.wasm``, the module that loads it, ``mlat.js``, and a page that has both in it.

    Raises
    ------
    MissingPackageError
        Without ziglang.
    InputError
        If the model is in whole numbers, or does not compile.
    """
    if code.bounds:
        raise InputError("a browser has floating point; write whole numbers as C")
    require_package("ziglang", "wasm", "an export to WebAssembly")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        sources = {**code.files(), "browser.c": text_of("browser.c")}
        for name, text in {**sources, **HEADERS}.items():
            (place / name).write_text(text, encoding="utf-8")
        done = subprocess.run(
            [*(sys.executable, "-m", "ziglang", "cc", *FLAGS, "-I."), "mlat.c", "browser.c",
             *("-o", "mlat.wasm")],
            cwd=place, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise InputError(f"the model does not compile to WebAssembly: {done.stderr[:500]}")
        module, script = (place / "mlat.wasm").read_bytes(), text_of("browser.js")
    page = text_of("page.html").replace("/*MODULE*/", script.replace("export async", "async"))
    page = page.replace("/*WASM*/", b64encode(module).decode())
    return {"mlat.wasm": module, "mlat.js": script.encode(), "index.html": page.encode()}
