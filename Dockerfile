FROM python:3.12-slim
WORKDIR /youden
COPY . .
RUN pip install --no-cache-dir '.[postgres]'
WORKDIR /run
USER nobody
ENTRYPOINT ["youden"]
