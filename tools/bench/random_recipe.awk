# Prints overrides of recipes/bench-cpu.yaml as key=value: a small model, its layout on a number of ranks, and its
# schedule. Some results are illegal. Needs random.awk. Variables: ranks; and seed, place and number, which select the
# random sequence.
function set(key, value) { printf "%s%s=%s", separator, key, value; separator = " " }

BEGIN {
  seed_random(seed, place == "nodes" ? 100 : place, number)
  hidden = pick("128 192 256 384 512")
  heads = hidden / pick("32 64")
  experts = pick("0 4 6 8 8 16")
  precision = pick("f32 f32 bf16")
  set("train.precision", precision)
  set("model.hidden", hidden)
  set("model.heads", heads)
  set("model.kv_heads", heads / pick(divisors("1 2 4", heads)))
  set("model.mlp", pick("swiglu gelu"))
  set("model.mlp_hidden", hidden * pick("2 4"))
  set("model.norm", pick("rms_norm rms_norm layer_norm"))
  set("model.qk_norm", pick("none none head all_heads"))
  set("model.rotary_share", pick("1 1 0.5"))
  set("model.bias", pick("false false true"))
  set("model.qkv_bias", pick("auto auto true false"))
  set("model.o_bias", pick("auto auto true false"))
  set("model.tied_embedding", pick("false false true"))
  set("model.vocab", pick("256 1000 4096 8192"))
  set("model.context", pick("32 64 128 256 512"))

  size["pp"] = size["tp"] = size["cp"] = size["dp"] = 1
  for (left = ranks; left > 1; left /= 2) size[pick("pp tp cp dp")] *= 2
  set("model.layers", size["pp"] * pick(size["pp"] > 1 ? "1 1 2 3" : "2 3 4 6"))
  set("parallel.pp", size["pp"])
  set("parallel.tp", size["tp"])
  sp = size["tp"] > 1 ? pick("true false") : "false"
  set("parallel.sp", sp)
  set("parallel.cp", size["cp"])
  if (size["cp"] > 1) set("parallel.cp_kind", pick("ring all_gather ulysses"))
  set("parallel.zero", size["dp"] * size["cp"] > 1 ? pick("0 1 2 3") : 0)
  if (size["pp"] > 1) set("schedule.pipeline.kind", pick("gpipe 1f1b 1f1b interleaved zb_h1 zb_v dualpipe_v"))
  micro = pick("1 1 2 4")
  set("batch.micro", micro)
  set("batch.global", micro * size["dp"] * pick("1 2 3 4 8"))
  set("recompute", pick("none none norms attention block"))
  set("offload.activations", pick("false false false false false false false true"))
  if (precision == "bf16") {
    set("optim.grad_dtype", pick("f32 bf16"))
    set("optim.moment_dtype", pick("f32 bf16"))
  }

  set("model.moe.experts", experts)
  if (experts > 0) {
    etp = pick("1 " size["tp"])
    set("parallel.etp", etp)
    set("parallel.ep", pick(divisors(divisors("1 2 4 8", experts), ranks / size["pp"] / etp)))
    set("model.moe.top_k", pick("1 2 2 4"))
    set("model.moe.expert", pick("swiglu swiglu gelu"))
    set("model.moe.expert_hidden", hidden * pick("0.5 1 2"))
    set("model.moe.dense_layers", pick("0 0 0 1"))
    set("model.moe.every", pick("1 1 1 2"))
    set("model.moe.routing", pick("balanced model"))
    set("model.moe.capacity_factor", pick("none none none none 1.25"))
    shared = pick("0 0 1")
    set("model.moe.shared_experts", shared)
    if (shared) set("schedule.moe.shared", pick("after beside"))
    if (shared) set("model.moe.shared_gate", pick("false false true"))
    duplicates = size["tp"] == 1 ? "pause_before_gate" : \
      pick("pause_before_gate pause_before_gate baseline " (sp == "true" ? "" : "replicated drop pause_after_gate"))
    overlap = pick("sequential sequential sequential a2a_allgather a2a_allgather_copy")
    chunk_by = pick("none none tokens experts nodes")
    set("schedule.moe.duplicates", duplicates)
    set("schedule.moe.overlap", overlap)
    set("schedule.moe.chunk_by", chunk_by)
    set("schedule.moe.chunks", chunk_by == "none" && overlap == "sequential" ? 1 : pick("2 2 3 4"))
    set("schedule.moe.rows", pick("slot slot token"))
    set("schedule.moe.gemms", pick("grouped grouped dense by_load"))
    set("schedule.pipeline.overlap", pick("none none none micro_batches"))
    if (duplicates != "baseline" && overlap == "sequential" && (chunk_by == "none" || chunk_by == "tokens"))
      set("schedule.moe.memory_reuse", pick("none none s1 s2 s3 s4"))
  }
  print ""
}
