"""Single shapes that the sample dumps do not hold: one text each, and what it says."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from analyzer.model import GpuSnapshot
from tests.readers.gpu.smi_tables import read


def snapshots(text: str) -> list[GpuSnapshot]:
    return [snapshot for reading in read(textwrap.dedent(text).strip("\n").split("\n")) for snapshot in reading.snapshots]


def cards(snapshot: GpuSnapshot) -> list[tuple[Any, ...]]:
    return [(gpu.index, gpu.memory_used_mib, gpu.memory_total_mib, gpu.memory_free_mib, gpu.utilization_percent) for gpu in snapshot.gpus]


def processes(snapshot: GpuSnapshot) -> list[tuple[Any, ...]]:
    return [(process.gpu, process.pid, process.name, process.used_mib) for process in snapshot.processes]


HEAD = """
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 531.14      Driver Version: 531.14       CUDA Version: 12.1      |
|-------------------------------+----------------------+----------------------+
"""

ONE = [
    # table rows
    ("no blank before the bar (531, Windows)", ("|   0  NVIDIA GeForce GTX 1080 Ti   WDDM | 00000000:01:00.0  On |                  N/A |\n"
     "|  0%   47C    P8              65W / 250W|   1034MiB / 11264MiB |      2%      Default |"), [(0, 1034, 11264, None, 2)], []),
    ("fan that touches the border", ("|   0  Tesla K80           Off  | 0000:05:00.0     Off |                    0 |\n"
     "|100%   31C    P8    26W / 149W |      0MiB / 11439MiB |      0%   E. Process |"), [(0, 0, 11439, None, 0)], []),
    ("six digits fill the cell", ("|   3  NVIDIA B300             On  |   00000000:9A:00.0 Off |                    0 |\n"
     "| N/A   34C    P0            142W / 1100W |  274402MiB / 275040MiB |      0%      Default |"), [(3, 274402, 275040, None, 0)], []),
    ("more used than there is", ("|   0  NVIDIA L4               On  |   00000000:9A:00.0 Off |                    0 |\n"
     "| N/A   34C    P0             42W /   72W |  230340MiB /  23034MiB |      0%      Default |"), [(0, None, None, None, 0)], []),
    ("lost card", ("|   0  NVIDIA L4               On  |   00000000:9A:00.0 Off |                 ERR! |\n"
     "|ERR!  ERR!  ERR!            ERR! /  ERR! | GPU is lost            |    ERR!      Default |"), [(0, None, None, None, None)], []),
    ("typed again, cells lost", "| 0 NVIDIA GeForce RTX 4090 | 00000000:01:00.0 Off | Off |\n| 44C P2 | 22371MiB / 24564MiB | 13% |",
     [(0, 22371, 24564, None, 13)], []),
    ("processes only", ("| Processes:                                                                 |\n"
     "|  GPU   GI   CI        PID   Type   Process name                  GPU Memory |\n|        ID   ID                   Usage      |\n"
     "|=============================================================================|\n"
     "|    0   N/A  N/A     40117      C   python3                         37209MiB |\n"
     "|    1    7    0      40118    M+C   python3                                  |"), [],
     [(0, 40117, "python3", 37209), (1, 40118, "python3", None)]),
    # -q
    ("block cut out of -q", ("    FB Memory Usage\n        Total                             : 46068 MiB\n        Reserved        : 665 MiB\n"
     "        Used                              : 41402 MiB\n        Free                              : 4000 MiB"),
     [(None, 41402, 46068, 4000, None)], []),
    ("-q before 410", ("==============NVSMI LOG==============\n\nTimestamp                           : Tue Apr 16 12:00:01 2019\n"
     "Driver Version                      : 390.48\n\nAttached GPUs                       : 1\nGPU 00000000:05:00.0\n"
     "    Product Name                    : Tesla P100\n    FB Memory Usage\n        Total                       : 16280 MiB\n"
     "        Used                        : 15611 MiB\n        Free                        : 669 MiB\n    Utilization\n"
     "        Gpu                         : 100 %\n        Memory                      : 57 %\n    Processes\n"
     "        Process ID                  : 2214\n            Type                    : C\n            Name                    : python\n"
     "            Used GPU Memory         : 15601 MiB"), [(0, 15611, 16280, 669, 100)], [(0, 2214, "python", 15601)]),
    ("-q with a slice before the card's own memory", ("==============NVSMI LOG==============\nAttached GPUs            : 1\n"
     "GPU 00000000:4F:00.0\n    MIG Mode\n        Current          : Enabled\n    MIG Device\n        Index            : 0\n"
     "        GPU Instance ID  : 1\n        Compute Instance ID : 0\n        FB Memory Usage\n            Total        : 40448 MiB\n"
     "            Used         : 35917 MiB\n            Free         : 4530 MiB\n        BAR1 Memory Usage\n            Total        : 65535 MiB\n"
     "            Used         : 2 MiB\n    Minor Number         : 3\n    FB Memory Usage\n        Total            : 81559 MiB\n"
     "        Used             : 35951 MiB\n        Free             : 45057 MiB\n    BAR1 Memory Usage\n        Total            : 131072 MiB\n"
     "        Used             : 3 MiB"), [(0, 35951, 81559, 45057, None)], []),
    ("-q quoted and collapsed", ("> ==============NVSMI LOG==============\n> Driver Version : 550.54.15\n> Attached GPUs : 1\n"
     "> GPU 00000000:05:00.0\n> FB Memory Usage\n> Total : 16280 MiB\n> Used : 15611 MiB\n> Free : 669 MiB\n> BAR1 Memory Usage\n"
     "> Total : 16384 MiB\n> Used : 2 MiB\n> Free : 16382 MiB"), [(0, 15611, 16280, 669, None)], []),
    # CSV
    ("names only, no index", "name, memory.total [MiB], memory.used [MiB]\nNVIDIA L4, 23034 MiB, 21006 MiB\nNVIDIA L4, 23034 MiB, 1 MiB",
     [(0, 21006, 23034, None, None), (1, 1, 23034, None, None)], []),
    ("units dropped", "index, memory.used [MiB], memory.total [MiB], utilization.gpu [%]\n0, 21006, 23034, 41\n1, 1, 23034, [N/A]",
     [(0, 21006, 23034, None, 41), (1, 1, 23034, None, None)], []),
    ("one column", "memory.used [MiB]\n21006 MiB", [(0, 21006, None, None, None)], []),
    ("header in the command line", "$ nvidia-smi --query-gpu=index,memory.used,memory.total --format=csv,noheader,nounits\n0, 21006, 23034",
     [(0, 21006, 23034, None, None)], []),
    ("no header, units", "0, NVIDIA L4, 23034 MiB, 21006 MiB, 41 %", [(0, None, None, None, None)], []),
    ("quoted by mail", "> index, memory.used [MiB]\n> 0, 21006 MiB", [(0, 21006, None, None, None)], []),
    ("apps without header", "21877, /usr/bin/python3, 77122 MiB", [], [(None, 21877, "/usr/bin/python3", 77122)]),
    ("apps, pid and size", "pid, used_gpu_memory [MiB]\n21877, 77122 MiB\n21878, [N/A]", [], [(None, 21877, None, 77122), (None, 21878, None, None)]),
    # monitors
    ("dmon with a time", "#Time        gpu   pwr    fb\n#HH:MM:SS    Idx     W    MB\n 10:14:22      0    98 27612", [(0, 27612, None, None, None)], []),
    ("dmon without fb", "# gpu    sm   mem\n# Idx     %     %\n    0    98    61", [(0, None, None, None, 98)], []),
    ("pmon of one sample", ("# gpu        pid  type    sm   mem   enc   dec   command\n# Idx          #   C/G     %     %     %     %   name\n"
     "    0      81544     C    87    41     -     -   VLLM::EngineCor"), [(0, None, None, None, None)], [(0, 81544, "VLLM::EngineCor", None)]),
    # others
    ("gpustat with power and fan", "[0] NVIDIA RTX A6000 | 61°C,  45 %,  98 %,  287 / 300 W | 47102 / 49140 MB | python/31201(46880M)",
     [(0, 47102, 49140, None, 98)], [(0, 31201, None, 46880)]),
    ("gpustat --json", ('{"hostname": "x", "gpus": [{"index": 0, "name": "NVIDIA L4", "memory.used": 21006, "memory.total": 23034,\n'
     ' "utilization.gpu": 41, "processes": [{"pid": 12, "command": "python", "gpu_memory_usage": 20990}]}]}'),
     [(0, 21006, 23034, None, 41)], [(0, 12, "python", 20990)]),
    ("rocm-smi in bytes", "GPU[0]\t\t: VRAM Total Memory (B): 206141652992\nGPU[0]\t\t: VRAM Total Used Memory (B): 187589918720",
     [(0, 178899.6875, 196592.0, None, None)], []),
    ("rocm-smi --csv", "device,VRAM Total Memory (B),VRAM Total Used Memory (B)\ncard0,206141652992,187589918720",
     [(0, 178899.6875, 196592.0, None, None)], []),
    ("rocm-smi --json", '{"card0": {"VRAM Total Memory (B)": "206141652992", "VRAM Total Used Memory (B)": "187589918720"}}',
     [(0, 178899.6875, 196592.0, None, None)], []),
    ("amd-smi monitor in MB", "GPU  POWER  GPU_TEMP  GFX_UTIL  VRAM_USED  VRAM_TOTAL\n  0  288 W     52 °C      93 %  178381 MB   196288 MB",
     [(0, 178381, 196288, None, 93)], []),
    ("amd-smi metric", "GPU: 0\n    MEM_USAGE:\n        TOTAL_VRAM: 196288 MB\n        USED_VRAM: 283 MB\n        FREE_VRAM: 196005 MB",
     [(0, 283, 196288, 196005, None)], []),
    ("amd-smi's table", ("+------------------------------------------------------------------------------+\n"
     "| AMD-SMI 26.2.1+fc0010cf6a    amdgpu version: 6.16.6   ROCm version: 7.2.0    |\n"
     "| VBIOS version: 00158742                                                      |\n"
     "| Platform: Linux Baremetal                                                    |\n"
     "|-------------------------------------+----------------------------------------|\n"
     "| BDF                        GPU-Name | Mem-Uti   Temp   UEC       Power-Usage |\n"
     "| GPU  HIP-ID  OAM-ID  Partition-Mode | GFX-Uti    Fan               Mem-Usage |\n"
     "|=====================================+========================================|\n"
     "| 0000:03:00.0 ...Radeon AI PRO R9700 | 1 %      79 °C   0           103/300 W |\n"
     "|   0       0     N/A             N/A | 100 %   38.82           29777/32624 MB |\n"
     "|-------------------------------------+----------------------------------------|\n"
     "| 0000:43:00.0 ...Radeon AI PRO R9700 | 0 %      80 °C   0            92/300 W |\n"
     "|   1       1       0        SPX/NPS1 | N/A     40.0 %          29777/32624 MB |\n"
     "+-------------------------------------+----------------------------------------+\n"
     "| Processes:                                                                   |\n"
     "|  GPU        PID  Process Name          GTT_MEM  VRAM_MEM  MEM_USAGE     CU % |\n"
     "|==============================================================================|\n"
     "|    0     213534  python3.12             5.9 MB   54.7 KB    18.2 GB        0 |\n"
     "+------------------------------------------------------------------------------+"),
     [(0, 29777, 32624, None, 100), (1, 29777, 32624, None, None)], [(0, 213534, "python3.12", None)]),
    ("dcgm-exporter", ("# HELP DCGM_FI_DEV_FB_FREE Framebuffer memory free (in MiB).\n# TYPE DCGM_FI_DEV_FB_FREE gauge\n"
     'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",modelName="GRID A100-8C"} 12\nDCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-1"} 7531\n'
     'DCGM_FI_DEV_FB_FREE{gpu="1",UUID="GPU-2"} 7000\nDCGM_FI_DEV_FB_FREE{gpu="1",UUID="GPU-2",GPU_I_ID="3"} 99\n'
     'DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-1"} 0\nDCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-2"} 531'),
     [(0, 0, None, 7531, 12), (1, 531, None, 7000, None)], []),
    ("xpu-smi stats", ("+-----------------------------+------------+\n| Device ID                   | 1          |\n"
     "+-----------------------------+------------+\n| GPU Utilization (%)         | 3          |\n"
     "| EU Array Active (%)         |            |\n+-----------------------------+------------+\n"
     "| GPU Power (W)               | 15         |\n| GPU Memory Used (MiB)       | 14210      |\n"
     "| GPU Memory Util (%)         | 87         |\n+-----------------------------+------------+"),
     [(1, 14210, None, None, 3)], []),
    ("xpu-smi discovery --dump", ("Device ID,Device Name,UUID,PCI BDF Address,Memory Physical Size\n"
     '0,"Intel(R) Data Center GPU Flex 170","00000000-0000-0000-0000-56c000008086","0000:4d:00.0","16384.00 MiB"'),
     [(0, None, 16384.0, None, None)], []),
    ("xpu-smi dump", ("Timestamp, DeviceId, GPU Memory Used (MiB)\n20:06:34.704,    0, 8283.38\n20:06:34.704,    1,  N/A"),
     [(0, 8283.38, None, None, None), (1, None, None, None, None)], []),
    ("amdgpu's own files", ("# cat /sys/class/drm/card0/device/mem_info_vram_used\n6812925952\n\n"
     "# cat /sys/class/drm/card0/device/mem_info_vram_total\n8573157376"), [(0, 6497.3125, 8176.0, None, None)], []),
    ("nvitop's compact view with a bar at its right", ("│ NVITOP 1.3.2   Driver Version: 570.144   CUDA Driver Version: 12.8 │\n├───┤\n"
     "│ GPU Fan Temp Perf Pwr:Usg/Cap │         Memory-Usage │ GPU-Util  Compute M. │\n╞═══╡\n"
     "│   0 30%  35C  P8   14W / 300W │  22.69MiB / 47.99GiB │      0%      Default │ MEM: ▏ 0.0%                            │"),
     [(0, 22.69, pytest.approx(49141.76), None, 0)], []),
    ("nvitop's compact view", ("│ NVITOP 1.5.1   Driver Version: 570.133.07   CUDA Driver Version: 12.8 │\n├───┤\n"
     "│ GPU Fan Temp Perf Pwr:Usg/Cap │         Memory-Usage │ GPU-Util  Compute M. │\n╞═══╡\n"
     "│   0 62%  61C  P2  287W / 300W │  46.00GiB / 47.99GiB │     98%      Default │\n╘═══╛\n"
     "│ GPU     PID      USER  GPU-MEM %SM  %CPU  %MEM      TIME  COMMAND │\n╞═══╡\n"
     "│   0   31201 C    alice 45.78GiB  97 101.2   3.4   1:02:33  python3 -m vllm │"), [(0, 47104, pytest.approx(49141.76), None, 98)],
     [(0, 31201, "python3 -m vllm", pytest.approx(46878.72))]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "name", "load"),
    [
        (("device,GPU use (%),VRAM Total Memory (B),VRAM Total Used Memory (B),Card Series,Card Model\n"
          "card0,7,21458059264,27856896,Radeon RX 7900 XT,0x744c"), "Radeon RX 7900 XT", 7),
        ("device,VRAM Total Memory (B),VRAM Total Used Memory (B),Card series\ncard0,21458059264,27856896,N/A", None, None),
        ('{"card0": {"GPU use (%)": "7", "VRAM Total Memory (B)": "21458059264", "Card Series": "Radeon RX 7900 XT"}}', "Radeon RX 7900 XT", 7),
    ],
)  # fmt: skip
def test_rocm_smi_names_the_card(text: str, name: str | None, load: int | None) -> None:
    gpu = snapshots(text)[0].gpus[0]
    assert (gpu.name, gpu.utilization_percent) == (name, load)


def test_a_loop_of_amd_smi_is_a_dump_each_time() -> None:
    one = (
        "+------------------------------------------------------------------------------+\n"
        "| AMD-SMI 26.0.0+37d158ab      amdgpu version: 6.16.13  ROCm version: 7.0.0    |\n"
        "| GPU  HIP-ID  OAM-ID  Partition-Mode | GFX-Uti    Fan               Mem-Usage |\n"
        "| 0000:1b:00.0 ...Instinct MI300X OAM | N/A        N/A   0           N/A/750 W |\n"
        "|   0       0       1        SPX/NPS1 | N/A        N/A        {used}/196592 MB |\n"
        "+-------------------------------------+----------------------------------------+\n"
    )
    found = snapshots(one.format(used=149820) + one.format(used=149821))
    assert [(snapshot.tool_version, cards(snapshot)[0][1]) for snapshot in found] == [("26.0.0", 149820), ("26.0.0", 149821)]


@pytest.mark.parametrize(("text", "want_cards", "want_processes"), [row[1:] for row in ONE], ids=[row[0] for row in ONE])
def test_shape(text: str, want_cards: list[Any], want_processes: list[Any]) -> None:
    found = snapshots(text)
    assert len(found) == 1
    assert cards(found[0]) == want_cards
    assert processes(found[0]) == want_processes


NOTHING = {
    "xpu-smi by tile": "Timestamp, DeviceId, TileId, GPU Memory Used (MiB)\n20:06:21.081,    0,    0, 39.12",
    "a dashboard's panels": "| Panel | Metric |\n|---|---|\n| GPU Memory Used (MiB) | `DCGM_FI_DEV_FB_USED` |",
    "a person's own table": "| GPU | model | used |\n|-----|-------|------|\n| 0 | 3090 | 21918MiB / 24576MiB |",
    "a log line with sizes": "INFO 01-15 10:22:31 [x.py:3] buffers 512MiB / 1024MiB, name, memory",
    "prose": "I ran NVIDIA-SMI and memory.used was high, then pid 3 died",
    "a CSV of something else": "index, name, price\n0, apple, 3\n1, pear, 4",
    "numbers": "0, 23028, 20911, 35\n1, 23028, 20911, 33",
    "an error inside a log line": "ERROR 01-15 10:22:31 [x.py:3] RuntimeError: Failed to initialize NVML: Unknown Error",
    "a Markdown header that resembles dmon": "# gpu settings\nuse two cards",
    "JSON of something else": '{"memory.used": 3}',
    "a half JSON": '[{"device_name": "NVIDIA L4", "mem_total": "123',
    "a README heading": "# GPU memory\n\n    0    98    61",
}


@pytest.mark.parametrize("text", NOTHING.values(), ids=NOTHING)
def test_refused(text: str) -> None:
    assert snapshots(text) == []


XML = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <driver_version>550.90.07</driver_version>
  <gpu id="00000000:4F:00.0">
    <product_name>NVIDIA H100</product_name>
    <clocks_event_reasons><clocks_event_reason_gpu_idle>Active</clocks_event_reason_gpu_idle>
      <clocks_event_reason_sw_power_cap>Active</clocks_event_reason_sw_power_cap></clocks_event_reasons>
    <ecc_errors><volatile><sram_uncorrectable_parity>1</sram_uncorrectable_parity><sram_uncorrectable_secded>0</sram_uncorrectable_secded>
      <dram_uncorrectable>2</dram_uncorrectable><dram_correctable>9</dram_correctable></volatile>
      <aggregate><dram_uncorrectable>77</dram_uncorrectable></aggregate></ecc_errors>
    <remapped_rows><remapped_row_pending>Yes</remapped_row_pending><remapped_row_failure>No</remapped_row_failure></remapped_rows>
    <fabric><state>In Progress</state><status>N/A</status></fabric>
    <fb_memory_usage><total>81559 MiB</total><used>35951 MiB</used><free>45057 MiB</free></fb_memory_usage>
  </gpu>
</nvidia_smi_log>"""


def test_xml_state() -> None:
    gpu = snapshots(XML)[0].gpus[0]
    assert (gpu.ecc, gpu.event_reasons, gpu.remap_pending, gpu.remap_failed) == ("3", ["sw power cap"], True, False)
    assert (gpu.fabric_state, gpu.fabric_status) == ("In Progress", None)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (XML + "\n" + XML, [(0, 35951, 81559, 45057, None)] * 2),
        (XML[: XML.index("<free>")], [(0, 35951, 81559, None, None)]),
        (XML[: XML.index("951 MiB</used>")], [(0, None, 81559, None, None)]),
        (XML.replace("<", "&lt;").replace(">", "&gt;"), [(0, 35951, 81559, 45057, None)]),
        ("\n".join(XML[start : start + 70] for start in range(0, len(XML), 70)), [(0, 35951, 81559, 45057, None)]),
        ("\n".join(f"> {line}" for line in XML.split("\n")), [(0, 35951, 81559, 45057, None)]),
        ("\n".join(line.lstrip() for line in XML.split("\n")), [(0, 35951, 81559, 45057, None)]),
    ],
    ids=["two documents", "cut", "cut inside a figure", "escaped", "wrapped", "quoted", "without indentation"],
)
def test_xml_damage(text: str, want: list[Any]) -> None:
    assert [card for snapshot in snapshots(text) for card in cards(snapshot)] == want


def test_xml_entities_and_external_documents_are_not_followed() -> None:
    bomb = (
        '<?xml version="1.0"?>\n<!DOCTYPE l [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>\n'
        '<nvidia_smi_log>\n<gpu id="0"><product_name>&b;</product_name>'
    )
    assert all("aaaa" not in (gpu.name or "") for snapshot in snapshots(bomb) for gpu in snapshot.gpus)


def test_topology_with_blanks_instead_of_tabs() -> None:
    text = """
            GPU0    GPU1    CPU Affinity    NUMA Affinity
    GPU0     X      NV4     0-31    0
    GPU1    NV4      X      0-31    0
    """
    found = snapshots(text)
    assert [snapshot.links for snapshot in found] == [{"0-1": "NV4"}]


def test_pmon_and_csv_loops_are_series() -> None:
    pmon = "# gpu pid type fb command\n# Idx # C/G MB name\n" + "".join(f"0 12 C {100 + step} a\n1 13 C 50 b\n" for step in range(3))
    assert [[process.used_mib for process in snapshot.processes] for snapshot in snapshots(pmon)] == [[100, 50], [101, 50], [102, 50]]
    csv = "timestamp, memory.used [MiB]\n" + "".join(f"2025/07/01 22:10:0{step}.004, {step} MiB\n" for step in range(4))
    assert [cards(snapshot)[0][1] for snapshot in snapshots(csv)] == [0, 1, 2, 3]


def test_process_names_are_redacted() -> None:
    from analyzer.readers import Page, read_page

    lines = ["pid, process_name, used_gpu_memory [MiB]", "12, /home/alice/run.py, 100 MiB"]
    found = read_page(Page("a", lines, redact=lambda text: text.replace("alice", "<user-1>")))
    assert found[0].snapshots[0].processes[0].name == "/home/<user-1>/run.py"
    assert "alice" not in repr(found)


def test_mixed_paste_keeps_every_dump() -> None:
    text = """
    $ nvidia-smi -L
    GPU 0: NVIDIA L4 (UUID: GPU-4f1d2c3b-0000-4e5f-8a9b-0c1d2e3f4a5b)
    $ nvidia-smi --query-gpu=index,memory.used --format=csv
    index, memory.used [MiB]
    0, 21006 MiB
    $ nvidia-smi
    Failed to initialize NVML: Driver/library version mismatch
    NVML library version: 575.57
    """
    kinds = [reading.kind for reading in read(textwrap.dedent(text).split("\n"))]
    assert [kind for kind in kinds if kind.startswith("nvidia-smi")] == ["nvidia-smi-L", "nvidia-smi-csv", "nvidia-smi-error"]


def test_a_process_that_grew_and_went_keeps_its_peak_as_a_fact() -> None:
    rows = [(12, 100), (13, 50), (12, 900), (13, 50), (12, 200), (13, 50), (13, 51)]
    text = "pid, used_gpu_memory [MiB]\n" + "\n".join(f"{pid}, {used} MiB" for pid, used in rows)
    facts = [fact for reading in read(text.split("\n")) for fact in reading.facts]
    assert {fact.value for fact in facts if fact.pid == 12} >= {100, 900}


def test_csv_broken_at_the_terminals_width() -> None:
    text = """timestamp, index, name, memory.total [MiB], memory.used [MiB], memory.free [MiB
], utilization.gpu [%]
2026/03/02 08:15:00.114, 0, NVIDIA GeForce RTX 4090, 24564 MiB, 22110 MiB, 2088
MiB, 38 %
2026/03/02 08:15:00.116, 1, NVIDIA L4, 23034 MiB, 1 MiB, 22570 MiB, 0 %"""
    assert [cards(snapshot) for snapshot in snapshots(text)] == [[(0, 22110, 24564, 2088, 38), (1, 1, 23034, 22570, 0)]]


def test_a_list_that_is_not_supported_is_no_empty_list() -> None:
    text = """
    | NVIDIA-SMI 375.66                 Driver Version: 375.66                    |
    |   0  GeForce GT 710      Off  | 0000:01:00.0     N/A |                  N/A |
    | 50%   38C    P0    N/A /  N/A |    167MiB /   978MiB |     N/A      Default |
    +-----------------------------------------------------------------------------+
    | Processes:                                                       GPU Memory |
    |  GPU       PID  Type  Process name                               Usage      |
    |=============================================================================|
    |    0                  Not Supported                                         |
    +-----------------------------------------------------------------------------+
    """
    assert [snapshot.process_table for snapshot in snapshots(text)] == [None]
