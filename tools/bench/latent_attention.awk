# Prints a row of tools/bench/latent_attention.sh. Input: dtype, context, model, seconds. Variables: dtype, context;
# heads: key heads of the grouped-query attention; f and g: FLOPs per token of latent and of grouped-query attention.

$1 == dtype && $2 == context { if ($3 == "latent") latent[++m] = $4; else grouped[++n] = $4 }

END {
  mla = median(latent, m)
  gqa = median(grouped, n)
  printf "%-6s %8d %10d %12.1f %12.1f %12.3f %12.3f %8.3f\n", dtype, context, heads, f / 1e6, g / 1e6, mla, gqa,
    mla / f / (gqa / g)
}
