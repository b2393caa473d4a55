"""An object store that speaks S3, on this machine and for the time of a test run."""

import contextlib
import io
import warnings

import pytest

KEYS = {
    "aws_access_key_id": "test-key",
    "aws_secret_access_key": "test-secret-4711",
    "aws_region": "us-east-1",
}
SECRET = KEYS["aws_secret_access_key"]


class Bucket:
    """A bucket, and what Polars needs to read it."""

    def __init__(self, endpoint, client, name):
        self.endpoint, self.client, self.name = endpoint, client, name
        self.options = {
            **KEYS,
            "aws_endpoint_url": endpoint,
            "aws_allow_http": "true",
            "max_retries": 0,
        }

    def put(self, key, frame):
        """Write a frame as Parquet."""
        body = io.BytesIO()
        frame.write_parquet(body)
        self.client.put_object(Bucket=self.name, Key=key, Body=body.getvalue())


@contextlib.contextmanager
def bucket(name):
    """Serve a bucket on the loopback; skip where the server is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of packages that the server is made of
        server_module, boto3 = pytest.importorskip("moto.server"), pytest.importorskip("boto3")
        server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        client = boto3.client("s3", endpoint_url=f"http://{host}:{port}", **_named_for_boto())
        client.create_bucket(Bucket=name)
    try:
        yield Bucket(f"http://{host}:{port}", client, name)
    finally:
        server.stop()


def _named_for_boto():
    return {name.replace("aws_region", "region_name"): value for name, value in KEYS.items()}
