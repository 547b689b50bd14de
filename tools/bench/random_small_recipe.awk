# Prints overrides of recipes/bench-cpu.yaml as key=value: a small model with few layouts, because its numbers of heads,
# layers, experts and sequences have few divisors. Some results are illegal. Needs random.awk. Variables: seed, place
# and number, which select the random sequence.
function set(key, value) { printf "%s%s=%s", separator, key, value; separator = " " }

BEGIN {
  seed_random(seed, place == "nodes" ? 100 : place, number)
  heads = pick("1 2 3 4")
  hidden = heads * pick("64 128")
  set("train.precision", pick("f32 f32 bf16"))
  set("model.layers", pick("1 2 3 4"))
  set("model.hidden", hidden)
  set("model.heads", heads)
  set("model.kv_heads", pick(divisors("1 2 3 4", heads)))
  set("model.vocab", pick("256 1000 4096"))
  set("model.context", pick("128 256 512 1024"))
  set("model.moe.experts", pick("2 3 4 6 8"))
  set("model.moe.top_k", pick("1 2"))
  set("model.moe.expert_hidden", hidden * pick("1 2 4"))
  set("model.moe.routing", "balanced")
  set("batch.micro", 1)
  set("batch.global", pick("1 2 3 4 6"))
  print ""
}
