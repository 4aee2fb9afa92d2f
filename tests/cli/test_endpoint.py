"""The connection to Kubeflow Pipelines: from within a cluster, and over TLS with an authority of one's own."""

import datetime
import ipaddress
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from cli import endpoint as module
from cli import namespaces
from cli.endpoint import Endpoint
from cli.main import main
from components.shared.errors import InfraError, UserError
from tests.cli.small_kfp import small_kfp


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for name in ("KFP_ENDPOINT", "KFP_TOKEN", "KFP_NAMESPACE", "KFP_CA_CERT", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)


def test_in_a_pod_the_service_and_the_projected_token_are_found(monkeypatch, tmp_path):
    with pytest.raises(UserError, match="No Kubeflow Pipelines is known"):
        Endpoint.of()
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    assert Endpoint.of().url == "http://ml-pipeline.kubeflow.svc.cluster.local:8888"
    token = tmp_path / "token"
    token.write_text("projected\n")
    monkeypatch.setenv("KF_PIPELINES_SA_TOKEN_PATH", str(token))
    with small_kfp() as kfp:
        monkeypatch.setattr(module, "IN_CLUSTER", kfp.url)  # the service's name means nothing here
        kfp.health["multi_user"] = True
        endpoint = Endpoint.of(namespace="team")
        with endpoint.spoken():
            endpoint.client.create_experiment("e", namespace="team")
        assert kfp.tokens == {"Bearer projected"}
        kfp.tokens.clear()
        assert Endpoint.of(token="given").health.multi_user
        assert kfp.tokens == {"Bearer given"}


def test_in_a_pod_of_a_profile_the_namespace_is_the_pods(monkeypatch, tmp_path):
    """As in a notebook, where nothing is set."""
    file = tmp_path / "namespace"
    file.write_text("team\n")
    monkeypatch.setattr(namespaces, "POD_NAMESPACE_FILE", file)
    with small_kfp() as kfp:
        kfp.health["multi_user"] = True
        assert Endpoint.of(kfp.url).namespace_of_runs == "team"
        assert Endpoint.of(kfp.url, namespace="given").namespace_of_runs == "given"
        Endpoint.of(kfp.url).check_profile()
        kfp.health["multi_user"] = False
        assert Endpoint.of(kfp.url).namespace_of_runs is None


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A file with a certificate for 127.0.0.1 that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "small kfp")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("tls") / "certificate.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return file


@pytest.fixture
def secured(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with small_kfp(context) as kfp:
        yield kfp


def made_experiment(endpoint):
    with endpoint.spoken():
        return endpoint.client.create_experiment("e").experiment_id


def test_a_certificate_that_nobody_vouches_for_is_refused(secured):
    with pytest.raises(InfraError, match=r"cannot be reached at https://127.*certificate"):
        _ = Endpoint.of(secured.url).health
    assert secured.sent == []


def test_an_authority_of_ones_own_is_trusted(secured, certificate, monkeypatch):
    assert made_experiment(Endpoint.of(secured.url, ca_cert=str(certificate))) == "e1"
    monkeypatch.setenv("KFP_CA_CERT", str(certificate))
    assert made_experiment(Endpoint.of(secured.url)) == "e1"
    with pytest.raises(UserError, match="does not exist: give --ca-cert a PEM file"):
        Endpoint.of(secured.url, ca_cert="/nowhere.pem")


def test_the_check_can_be_switched_off(secured, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["schedule", "list", "--endpoint", secured.url, "--no-verify-tls"])
    shown = capsys.readouterr()
    assert (ended.value.code, shown.out, shown.err) == (0, "There are no schedules.\n", "")
