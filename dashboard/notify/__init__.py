"""Who is told, and how the week went."""
