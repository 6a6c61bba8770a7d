CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
