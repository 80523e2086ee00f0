"""A follow-up becomes a question that stands alone: earlier turns are read, and what the follow-up leaves out is put in."""
