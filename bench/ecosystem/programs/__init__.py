"""One module for each subject, with the programs of its packages."""
