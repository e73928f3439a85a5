#!/usr/bin/env python3
"""Send a load to a running server and print latencies and throughput as one JSON object.

The fields are those of `vllm bench serve`. Works with any OpenAI-style /v1/completions that takes token ids.
Exit code 0: all requests completed; 1: some failed; 2: the server could not be reached.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

try:
    import aiohttp
except ImportError:
    print("client: needs aiohttp; install it with: pip install aiohttp", file=sys.stderr)
    sys.exit(2)
from server import client, options, results


async def send(args: argparse.Namespace) -> tuple[dict[str, Any], list[results.Record]]:
    """Send the load that the command line describes."""
    load = options.load_of(args, request_rate=args.request_rate)
    return await client.run(args.url, load, model=args.model, label=args.label, vocab=args.vocab)


def main() -> int:
    """Parse, send, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url", help="for example http://127.0.0.1:8000")
    parser.add_argument(
        "--model", default="", help="model name to send (default: the first one the server lists)"
    )
    parser.add_argument("--request-rate", type=options.positive_float, default=float("inf"), metavar="R",
                        help="requests a second, at random moments (default: no pause)")  # fmt: skip
    parser.add_argument("--vocab", type=options.positive, default=client.VOCAB, metavar="N",
                        help=f"prompts draw token ids below N (default {client.VOCAB})")  # fmt: skip
    options.add_load(parser)
    args = parser.parse_args()
    try:
        summary, records = asyncio.run(send(args))
    except (aiohttp.ClientError, OSError, ValueError) as error:
        print(f"client: cannot use {args.url}: {error}", file=sys.stderr)
        return 2
    if args.save_detailed:
        summary |= results.detail(records)
    options.put_result(args, summary)
    for record in records:
        if record.error:
            print(f"client: a request failed: {record.error}", file=sys.stderr)
            break
    return 1 if summary["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
