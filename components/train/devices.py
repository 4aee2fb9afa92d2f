"""The GPUs that a plan knows, by the figures of their data sheets."""

from dataclasses import dataclass

from components.shared.errors import UserError


@dataclass(frozen=True)
class Device:
    """By the vendor's data sheet: dense 16-bit arithmetic in TFLOP/s, memory bandwidth in GB/s and size in GiB.

    bf16: whether it computes in bf16, which NVIDIA's GPUs do from compute capability 8.0 on.
    """

    name: str
    tflops: float
    bandwidth: float
    memory: float
    bf16: bool = True


DEVICES = {
    device.name: device
    for device in (
        Device("T4", 65, 320, 15, bf16=False),
        Device("L4", 121, 300, 22.5),
        Device("A10G", 70, 600, 22.5),
        Device("L40S", 362, 864, 45),
        Device("A100-40GB", 312, 1555, 40),
        Device("A100-80GB", 312, 2039, 80),
        Device("H100", 989, 3350, 80),
        Device("H200", 989, 4800, 141),
    )
}
DEFAULT_DEVICE = "A100-80GB"


def device_named(name: str) -> Device:
    """The device of that name, in any case; UserError with those that are known."""
    found = {known.lower(): device for known, device in DEVICES.items()}.get(name.lower())
    if found is None:
        raise UserError(f"There are no figures for a GPU {name!r}: use one of {', '.join(DEVICES)}.")
    return found


def device_like(name: str, memory: float) -> Device | None:
    """The device behind CUDA's name for it, such as `NVIDIA A100-SXM4-80GB`, with this many GiB; None if unknown."""
    words = name.upper().replace("-", " ").split()
    same = [device for device in DEVICES.values() if device.name.split("-")[0] in words]
    return min(same, key=lambda device: abs(device.memory - memory), default=None)
