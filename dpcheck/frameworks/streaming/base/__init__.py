from streaming import Stream, StreamingDataLoader, StreamingDataset
