"""The port that agents and relays come to, and the certificates it shows."""

from collections.abc import Sequence
from typing import Final

import grpc

from harvest_aggregator.limits import SERVER_OPTIONS
from harvest_pki.folders import Tls

_STOP_SECONDS: Final = 5.0


class ListeningError(Exception):
    """The port cannot be used; the message says what to do."""


class Port:
    """A gRPC server that asks everybody for a certificate, and can change its own while it runs."""

    def __init__(self, handlers: Sequence[grpc.GenericRpcHandler], address: str, tls: Tls) -> None:
        self._fresh: grpc.ServerCertificateConfiguration | None = None
        self._server = grpc.aio.server(options=SERVER_OPTIONS)
        self._server.add_generic_rpc_handlers(tuple(handlers))
        credentials = grpc.dynamic_ssl_server_credentials(
            _configuration(tls),
            self._changed,  # type: ignore[arg-type]  # may return nothing, says gRPC; its types do not
            require_client_authentication=True,
        )
        try:
            self.number: Final = self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise ListeningError(
                f"cannot listen on {address} for agents: is another aggregator running, or is it no address of this "
                "machine? Choose with --grpc ADDRESS:PORT"
            ) from error

    async def open(self) -> None:
        """Let agents in."""
        await self._server.start()

    def show(self, tls: Tls) -> None:
        """Use other certificates for connections that come from now on."""
        self._fresh = _configuration(tls)

    async def close(self, seconds: float = _STOP_SECONDS) -> None:
        """Let nobody in any more, and wait a little for those inside to go."""
        await self._server.stop(seconds)

    def _changed(self) -> grpc.ServerCertificateConfiguration | None:
        """Return what to use from this connection on, nothing if that is what was used before."""
        fresh, self._fresh = self._fresh, None
        return fresh


def _configuration(tls: Tls) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(tls.key, tls.certificate)], tls.ca)
