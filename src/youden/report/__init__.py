"""Reports: the data shown, the charts and the pages."""
