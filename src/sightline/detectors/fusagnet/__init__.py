"""FuSAGNet: codes of an autoencoder, forecast on a graph (Han and Woo, 2022)."""
