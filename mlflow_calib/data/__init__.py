"""Tables and records by URI: scores with their labels, partitions, keys, manifests."""
