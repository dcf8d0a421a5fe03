"""A program that kills ``mlat live`` and checks that no step is lost, doubled or out of order."""
