"""Tables, figures, the page and the README from records and verdicts: rendering alone."""
