"""A simulated Lustre site that knows the truth; § are paragraphs of lustre-formats, its only source."""
