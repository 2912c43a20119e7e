# Wanderlust on CPU cores, with the explorer and films. Nobody has built this image here: a first build may need a fix.
#
#   docker build -t wanderlust .
#   docker run --rm -v "$PWD/runs:/home/user/runs" wanderlust discover ant --budget-seconds 1800 --out runs/ant
#   docker run --rm -p 8080:8080 wanderlust explore --host 0.0.0.0     # prints an address with a token
FROM python:3.12-slim

RUN apt-get update --quiet=2 \
 && apt-get install --yes --quiet=2 --no-install-recommends libegl1 libegl-mesa0 libgl1-mesa-dri \
 && rm -rf /var/lib/apt/lists/*

WORKDIR /src
COPY . .
RUN pip install --no-cache-dir '.[explorer,video,fetch,onnx]' && rm -rf /src

RUN useradd --create-home user
USER user
WORKDIR /home/user
EXPOSE 8080
ENTRYPOINT ["wanderlust"]
CMD ["--help"]
