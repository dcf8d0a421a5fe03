"""mlat as classifiers and transformers of other ecosystems: aeon, sktime and river.

Each module imports its ecosystem, and is imported on use: ``from mlat.adapters.aeon import
MLATClassifier``. None of them is installed with mlat.
"""
