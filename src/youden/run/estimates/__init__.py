"""Which estimator ranks a plan, its abilities, their covariance, and the table that comes of them."""
