"""vLLM's options as its command line parser takes them, releases 0.2.0 to 0.33.0: which stand alone, which take one value, which several.

Names without their dashes. Reading a command needs no more; which release has which option is the engine's own table (flags.json).
"""

# ruff: noqa: SIM905 - a list literal would be four hundred lines

from __future__ import annotations

#: Stand alone; --no-<name> is the opposite. Some took a value for a few releases, or take true/false.
SWITCHES = frozenset(
    """
    aggregate-engine-logging allow-credentials allow-deprecated-quantization async-scheduling calculate-kv-scales
    cohere-is-reasoning-model cudagraph-metrics data-parallel-external-lb data-parallel-hybrid-lb data-parallel-multi-port-external-lb
    dcp-q-replicate disable-async-output-proc disable-cascade-attn disable-chunked-mm-input disable-chunked-prefill
    disable-custom-all-reduce disable-fastapi-docs disable-frontend-multiprocessing disable-hybrid-kv-cache-manager
    disable-image-processor disable-log-requests disable-log-stats disable-logprobs-during-spec-decoding disable-mm-preprocessor-cache
    disable-nccl-for-dp-synchronization disable-prefix-caching disable-sliding-window disable-uvicorn-access-log
    enable-auto-tool-choice enable-batch-sharded-sampling enable-bf16x3-router-gemm enable-chunked-prefill enable-cumem-allocator
    enable-dbo enable-elastic-ep enable-ep-weight-filter enable-eplb enable-expert-parallel enable-fault-tolerance
    enable-flash-late-interaction enable-flashinfer-autotune enable-force-include-usage enable-hc-sp enable-layerwise-nvtx-tracing
    enable-log-deltas enable-log-outputs enable-log-requests enable-logging-iteration-details enable-lora enable-lora-bias
    enable-mamba-cache-stochastic-rounding enable-mamba-fine-grained-prefix-cache enable-mamba-shared-prefix-checkpoint
    enable-mfu-metrics enable-mixed-moe-lora-format enable-mm-embeds enable-moe-shared-loras enable-multimodal-encoder-data-parallel
    enable-nccl-comm-suspend enable-offline-docs enable-per-request-metrics enable-prefix-caching enable-prompt-adapter
    enable-prompt-embeds enable-prompt-tokens-details enable-reasoning enable-request-id-headers enable-return-routed-experts
    enable-scale-out enable-server-load-tracking enable-shm-tensor-arena enable-sleep-mode enable-ssl-refresh
    enable-tokenizer-info-endpoint enable-tower-connector-lora enable-trace-replay enforce-eager engine-use-ray eplb-log-balancedness
    exclude-tools-when-tool-choice-none expand-tools-even-if-tool-choice-none fail-on-environ-validation fully-sharded-loras grpc
    guided-decoding-disable-additional-properties guided-decoding-disable-any-whitespace guided-decoding-disable-fallback headless
    interleave-mm-strings jit-monitor-verbose kv-cache-metrics kv-sharing-fast-prefill language-model-only log-error-stack
    long-prefill-token-threshold-adaptive mm-cache-preprocessor mm-device-do-normalize mm-encoder-only monokernel
    multi-step-stream-outputs numa-bind ray-workers-use-nsight return-sampling-mask return-tokens-as-token-ids
    scheduler-reserve-full-isl skip-mm-profiling skip-tokenizer-init sleep-mode-offload-cudagraph specialize-active-lora
    speculative-disable-mqa-scorer swa-bounded-replay tokens-only trust-remote-code trust-request-chat-template
    trust-request-mm-kwargs use-fp64-gumbel use-gpu-for-pooling-score use-replayssm use-tqdm-on-load use-v2-block-manager
    worker-use-ray
    """.split()
)

#: Take every value up to the next option.
SEVERAL = frozenset(
    """
    allowed-headers allowed-media-domains allowed-methods allowed-origins api-key collect-detailed-traces cuda-graph-sizes
    cudagraph-capture-sizes ignore-patterns kv-cache-dtype-skip-layers limit-mm-per-prompt logits-processors lora-modules
    lora-target-modules middleware numa-bind-cpus numa-bind-nodes served-model-name sleep-preserve-parameter-names
    """.split()
)

#: Take one value, which is text even where it looks like a number.
TEXTS = frozenset(
    """
    all2all-backend allowed-local-media-path anthropic-disabled-thinking-effort chat-template chat-template-text-format code-revision
    cohere-format config convert data-parallel-address data-parallel-backend dcp-comm-backend disable-access-log-for-endpoints
    download-dir expert-placement-strategy fingerprint-mode fingerprint-value gdn-prefill-backend generation-config
    guided-decoding-backend hf-config-path host image-input-shape image-input-type image-processor image-processor-revision
    io-processor-plugin jit-monitor-mode kda-decode-backend kda-prefill-backend kv-cache-dtype kv-offloading-backend log-level
    logits-processor-pattern mamba-cache-dtype mamba-cache-mode mamba-ssm-cache-dtype mamba-ssu-algorithm master-addr
    mm-encoder-attn-dtype mm-encoder-fp8-scale-path mm-encoder-fp8-scale-save-path mm-encoder-tp-mode mm-hasher-algorithm
    mm-processor-cache-type mm-processor-device mm-tensor-ipc model offload-backend otlp-traces-endpoint override-attention-dtype
    per-request-spec-decode-metrics performance-mode preemption-mode prefix-caching-hash-algo prompt-adapters
    qlora-adapter-name-or-path quantization quantization-param-path reasoning-parser-plugin response-role revision root-path runner
    safetensors-load-strategy scheduler-cls scheduling-policy show-hidden-metrics-for-version sleep-mode-backend
    spec-decoding-acceptance-method spec-method spec-model speculative-model speculative-model-quantization ssl-ca-certs ssl-certfile
    ssl-ciphers ssl-keyfile task tokenizer tokenizer-mode tokenizer-pool-type tokenizer-revision tool-call-parser tool-parser-plugin
    tool-server tool-strict-level uds uvicorn-log-level video-pruning-method worker-cls worker-extension-cls
    """.split()
)

#: Take one value of another kind.
VALUES = frozenset(
    """
    additional-config api-server-count attention-backend attention-config aux-output-config block-size chat-template-content-format
    compilation-config config-format cp-kv-cache-interleave-size cpu-distributed-timeout-seconds cpu-offload-gb cpu-offload-params
    custom-histogram-buckets data-parallel-rank data-parallel-rpc-port data-parallel-size data-parallel-size-local
    data-parallel-start-rank data-parallel-supervisor-port dbo-decode-token-threshold dbo-prefill-token-threshold
    dcp-kv-cache-interleave-size decode-context-parallel-size default-chat-template-kwargs default-mm-loras device device-ids
    device-memory-utilization diffusion-config distributed-executor-backend distributed-timeout-seconds
    dp-supervisor-probe-failure-threshold dp-supervisor-probe-interval-s dp-supervisor-probe-timeout-s dp-sync-interval dtype
    ec-manager-config ec-transfer-config elastic-ep-max-dp-size engram-config eplb-config eplb-step-interval eplb-window-size
    fault-tolerance-config gpu-memory-utilization grpc-port h11-max-header-count h11-max-incomplete-event-size hf-overrides hf-token
    image-feature-size image-token-id ir-op-priority kernel-config kv-cache-memory-bytes kv-cache-metrics-sample kv-events-config
    kv-offloading-size kv-transfer-config linear-backend load-format log-config-file logging-config logprobs-mode
    long-lora-scaling-factors long-prefill-token-threshold lora-dtype lora-extra-vocab-size mamba-backend mamba-block-size
    mamba-cache-philox-rounds master-port max-context-len-to-capture max-cpu-loras max-cudagraph-capture-size max-log-len max-logprobs
    max-long-partial-prefills max-lora-cls-labels max-lora-rank max-loras max-model-len max-num-active-seqs max-num-batched-tokens
    max-num-partial-prefills max-num-queued-reqs max-num-queued-tokens max-num-scheduled-tokens max-num-seqs max-paddings
    max-parallel-loading-workers max-prompt-adapter-token max-prompt-adapters max-seq-len-to-capture media-io-kwargs
    mm-encoder-attn-backend mm-encoder-fp8-scale-save-margin mm-ipc-gpu-memory-gb mm-processor-cache-gb mm-processor-kwargs
    mm-shm-cache-max-object-size-mb model-class-overrides model-impl model-loader-extra-config moe-backend ngram-prompt-lookup-max
    ngram-prompt-lookup-min nnodes node-rank num-gpu-blocks-override num-lookahead-slots num-redundant-experts num-scheduler-steps
    num-speculative-tokens offload-group-size offload-num-in-group offload-params offload-prefetch-step optimization-level
    override-generation-config override-neuron-config override-pooler-config pipeline-parallel-size pooler-config port
    prefill-context-parallel-size prefill-schedule-interval prefix-cache-retention-interval prefix-match-unit profiler-config
    pt-load-map-location quantization-config reasoning-config reasoning-effort-map reasoning-parser renderer-num-workers
    replayssm-buffer-len rope-scaling rope-theta safetensors-prefetch-block-size safetensors-prefetch-num-threads
    scheduler-delay-factor seed shutdown-timeout sparse-indexer-topk-backend spec-tokens speculative-config
    speculative-disable-by-batch-size speculative-draft-tensor-parallel-size speculative-max-model-len sse-keep-alive-interval
    ssl-cert-reqs stream-interval structured-outputs-config swap-space tensor-parallel-size tokenizer-pool-extra-config
    tokenizer-pool-size typical-acceptance-sampler-posterior-alpha typical-acceptance-sampler-posterior-threshold ubatch-size
    video-pruning-rate watchdog-config watermark watermark-config weight-transfer-config
    """.split()
)

ALL = SWITCHES | SEVERAL | TEXTS | VALUES

#: Short spellings.
ALIASES: dict[str, str] = {
    "-ac": "--attention-config",
    "-asc": "--api-server-count",
    "-cc": "--compilation-config",
    "-dc": "--diffusion-config",
    "-dcp": "--decode-context-parallel-size",
    "-dp": "--data-parallel-size",
    "-dpa": "--data-parallel-address",
    "-dpb": "--data-parallel-backend",
    "-dpe": "--data-parallel-external-lb",
    "-dph": "--data-parallel-hybrid-lb",
    "-dpl": "--data-parallel-size-local",
    "-dpm": "--data-parallel-multi-port-external-lb",
    "-dpn": "--data-parallel-rank",
    "-dpp": "--data-parallel-rpc-port",
    "-dpr": "--data-parallel-start-rank",
    "-ep": "--enable-expert-parallel",
    "-n": "--nnodes",
    "-pcp": "--prefill-context-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-q": "--quantization",
    "-r": "--node-rank",
    "-sc": "--speculative-config",
    "-spec-draft-tp": "--speculative-draft-tensor-parallel-size",
    "-tp": "--tensor-parallel-size",
}

#: Take "4k", "1.5M" (powers of 1000 in small letters, of 1024 in capitals).
HUMAN_SIZES = frozenset({"--max-model-len", "--max-num-batched-tokens", "--kv-cache-memory-bytes"})
