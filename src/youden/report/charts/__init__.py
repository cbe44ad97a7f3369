"""Charts of reports and studies, as Vega-Lite specifications."""
