"""The bundled data, as a package so that wheels and editable installs both carry it."""
