"""Runs the ecosystem's own suite on an adapter, and counts: ``python run_suites.py aeon``.

For the environments of ``lab/benchmarks/ecosystem-*.txt``, in which each is installed; it needs
nothing else of the tests.
"""

import sys
import warnings

warnings.simplefilter("ignore")


def aeon():
    from aeon.testing.estimator_checking import check_estimator

    from mlat.adapters.aeon import MLATClassifier, MLATTransformer

    for adapter in (MLATClassifier, MLATTransformer):
        yield adapter.__name__, check_estimator(adapter)


def sktime():
    from sktime.utils.estimator_checks import check_estimator

    from mlat.adapters.sktime import MLATClassifier, MLATTransformer

    for adapter in (MLATClassifier, MLATTransformer):
        yield adapter.__name__, check_estimator(adapter, verbose=False)


def river():
    from river import checks

    from mlat.adapters.river import MLATClassifier

    model = MLATClassifier()
    results = {}
    for number, check in enumerate(checks.yield_checks(model)):
        name = f"{check.__name__}-{number}"
        try:
            check(model.clone())
            results[name] = "PASSED"
        except Exception as error:
            results[name] = repr(error)
    yield "MLATClassifier", results


def main(ecosystem):
    failed = False
    for name, results in {"aeon": aeon, "sktime": sktime, "river": river}[ecosystem]():
        wrong = {check: result for check, result in results.items() if result != "PASSED"}
        print(f"{ecosystem} {name}: {len(results) - len(wrong)} of {len(results)} checks passed")
        for check, result in wrong.items():
            print(f"  {check}: {result}")
        failed |= bool(wrong) or len(results) < 10
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
