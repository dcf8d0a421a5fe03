"""A program that kills ``mlat live`` and checks that nothing was lost, doubled or disordered."""
