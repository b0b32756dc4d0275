"""An ASGI application as processes: its address, its signals, uvicorn, several workers, an orderly end."""
