# One image for lookups, syncs, readers of a fleet and the services. It runs as a user without a name, without HOME, on a
# read-only root file system: what is written goes to /state alone.
#
#     docker build -t geolookup .
#     docker run --rm -v geo:/state geolookup sync --bundled
#     docker run --rm --read-only --cap-drop ALL --network none -v geo:/state:ro geolookup 8.8.8.8

FROM python:3.13-slim-bookworm AS build
RUN apt-get update \
    && apt-get install --no-install-recommends --yes gcc=4:12.* libc6-dev=2.36-* \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY constraints-image.txt ./
RUN python -m venv /opt/geolookup \
    && /opt/geolookup/bin/pip install --no-cache-dir --require-hashes --requirement constraints-image.txt
COPY pyproject.toml setup.py README.md LICENSE ./
COPY docs/geolookup.1 docs/
COPY src src
COPY tools/tried.py tools/
# The accelerator must be there, and setuptools is not needed any longer.
RUN /opt/geolookup/bin/pip install --no-cache-dir --no-deps --no-build-isolation . \
    && /opt/geolookup/bin/python tools/tried.py \
    && /opt/geolookup/bin/pip uninstall --yes setuptools

FROM python:3.13-slim-bookworm
COPY --from=build /opt/geolookup /opt/geolookup
RUN install --directory --owner 10001 --group 10001 --mode 750 /state
ENV PATH=/opt/geolookup/bin:$PATH \
    GEOLOOKUP_HOME=/state \
    TMPDIR=/state \
    PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /state
VOLUME ["/state"]
ENTRYPOINT ["geolookup"]
CMD ["--help"]
