"""What is published and stored: the numbers of a release, its certificate and cost, and its files in folders."""
