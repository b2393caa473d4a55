"""From a request and its options to a decision: public metadata, laws, the share of each sum, noise and cost."""
