"""scikit-learn: the splits and shuffles that decide which examples a rank sees."""
