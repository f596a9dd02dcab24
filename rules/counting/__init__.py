"""What is measured and scheduled counts every rank."""
