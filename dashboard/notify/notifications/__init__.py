"""Rules, channels, rotas and messages."""
