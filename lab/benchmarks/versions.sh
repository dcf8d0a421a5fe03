#!/usr/bin/env bash
# With which versions of other packages mlat works; see the page docs/develop/versions.md.
#   versions.sh            every extra and every peer at once resolve, for each version of Python
#   versions.sh PYTHON     the newest versions of what that Python installs pass the tests in
#                          tests/any_versions.txt
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

tools=.venv-uv
[ -e "$tools/bin/uv" ] || { python3 -m venv "$tools" && "$tools/bin/python" -m pip --quiet install uv==0.13.7; }
uv=$tools/bin/uv

if [ $# -eq 0 ]; then
  for version in 3.11 3.12 3.13 3.14; do
    found=$("$uv" pip compile --quiet --python-version "$version" --all-extras \
      pyproject.toml lab/benchmarks/peers-all.in | grep -E '^[A-Za-z0-9_.-]+==')
    echo "Python $version: $(wc -l <<<"$found") packages; $(
      grep -E '^(aeon|river|sktime|mne|numba|numpy|scikit-learn|torch)==' <<<"$found" | paste -sd ' '
    )"
  done
  exit
fi

name=$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
place=.venv-newest-$name
"$1" -m venv --clear "$place"
"$uv" pip install --quiet --python "$place/bin/python" --upgrade \
  -r pyproject.toml --extra files --extra plots --extra live --extra mne --extra xdf --extra mat73 --group test hdf5storage edfio
"$uv" pip list --quiet --python "$place/bin/python" | tail -n +3 | paste -sd ' ' | tr -s ' '
PYTHONPATH=src NUMBA_CACHE_DIR="$PWD/$place/numba" "$place/bin/python" -m pytest -q -n 2 \
  -k "not auto and not check_estimator and not shipped" @tests/any_versions.txt
