"""The same model behind LitServe, for `benchmarks/serve.py --litserve`: python benchmarks/serve_litserve.py RUN."""

import multiprocessing
import os
import signal
import socket
import sys
from typing import Any

import litserve

import pag


class Api(litserve.LitAPI):
    def setup(self, device: str) -> None:
        self.model = pag.load(sys.argv[1], "cpu")

    def decode_request(self, request: dict[str, Any]) -> str:
        return request["text"]

    def predict(self, texts: list[str]) -> list[str]:
        return [result.text for result in self.model.generate(texts, batch_size=len(texts))]

    def encode_response(self, text: str) -> dict[str, str]:
        return {"text": text}


def stop(*_: Any) -> None:
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(0)


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    signal.signal(signal.SIGTERM, stop)
    api = Api(max_batch_size=64, batch_timeout=0.003, api_path="/api/generate")
    print(f"serving at http://127.0.0.1:{port}/", flush=True)
    litserve.LitServer(api, accelerator="cpu", workers_per_device=1).run(
        host="127.0.0.1", port=port, generate_client_file=False, log_level="error"
    )
