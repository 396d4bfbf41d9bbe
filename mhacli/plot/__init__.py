"""What pictures are made of: matrices pooled to a size, their labels and scales, and their packing for a page."""
