"""Reports: from the results of experiments to tables, pictures and pages."""
