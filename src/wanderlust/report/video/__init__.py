"""Films of skills: a model dressed for pictures, rendered without a screen, and written as MP4, GIF and film strip."""
