#include "model/mla_attention.h"

#include <algorithm>
#include <vector>

namespace tessera {
namespace {

std::int64_t q_dim(const MlaConfig& mla) { return mla.nope_dim + mla.rope_dim; }
std::int64_t row_dim(const MlaConfig& mla) { return mla.kv_lora_rank + mla.rope_dim; }
// Columns of q in the first projection.
std::int64_t q_first(const MlaConfig& mla, std::int64_t heads) {
  return mla.q_lora_rank > 0 ? mla.q_lora_rank : heads * q_dim(mla);
}

}  // namespace

void MlaScratch::plan(Arena& arena, const ModelConfig& config, const Shard& shard, DType dtype,
                      const StepLimits& limits) {
  const MlaConfig& mla = config.mla;
  const std::int64_t heads = shard.even(config.heads).count;
  q_kv_a = arena.take(dtype, limits.tokens, q_first(mla, heads) + row_dim(mla));
  q_normed = arena.take(dtype, limits.tokens, mla.q_lora_rank);
  q = arena.take(dtype, limits.tokens, heads * q_dim(mla));
  q_absorbed = arena.take(dtype, limits.decode_tokens, heads * row_dim(mla));
  o_latent = arena.take(dtype, limits.decode_tokens, heads * mla.kv_lora_rank);
  attended = arena.take(dtype, limits.tokens, heads * mla.v_dim);
  if (shard.dcp == nullptr) return;
  earlier = arena.take(dtype, limits.tokens, heads * mla.v_dim);
  earlier_lse = arena.take(DType::kF32, limits.tokens, heads);
  lse = arena.take(DType::kF32, limits.tokens, heads);
  exchange.plan(arena, shard.dcp, shard.exchange,
                {.tokens = limits.decode_tokens,
                 .heads = heads,
                 .key_dim = row_dim(mla),
                 .value_dim = mla.kv_lora_rank,
                 .dtype = dtype});
}

KvRowShape MlaAttention::kv_shape(const ModelConfig& config) {
  return KvRowShape::mla(static_cast<std::int32_t>(config.mla.kv_lora_rank),
                         static_cast<std::int32_t>(config.mla.rope_dim));
}

std::int64_t MlaAttention::width(const ModelConfig& config, const Shard& shard) {
  const MlaConfig& mla = config.mla;
  const std::int64_t heads = shard.even(config.heads).count;
  return std::max(
      {q_first(mla, heads) + row_dim(mla), heads * q_dim(mla), heads * row_dim(mla), heads * mla.v_dim});
}

MlaAttention::MlaAttention(WeightReader& reader, Backend& backend, const ModelConfig& config,
                           const Shard& shard, const std::string& prefix)
    : heads_(shard.even(config.heads).count), most_heads_(most_heads(config, shard)), dcp_(shard.dcp) {
  const MlaConfig& mla = config.mla;
  const std::int64_t first_head = shard.even(config.heads).first;
  const std::int64_t dim = q_dim(mla);
  const auto share = [&](const char* name) {
    return reader.host(prefix + name).row_range(first_head * dim, heads_ * dim);
  };
  const HostMatrix kv_a = reader.host(prefix + "kv_a_proj_with_mqa");
  if (mla.q_lora_rank > 0) {
    q_kv_a_ = reader.projection({reader.host(prefix + "q_a_proj"), kv_a});
    q_a_norm_ = reader.vector(prefix + "q_a_layernorm");
    q_b_ = reader.weight(share("q_b_proj"));
  } else {
    q_kv_a_ = reader.projection({share("q_proj"), kv_a});
  }
  kv_a_norm_ = reader.vector(prefix + "kv_a_layernorm");

  // kv_b is head-major: nope rows of W_UK[h], then v rows of W_UV[h].
  const std::int64_t head_rows = mla.nope_dim + mla.v_dim;
  const HostMatrix kv_b =
      reader.host(prefix + "kv_b_proj").row_range(first_head * head_rows, heads_ * head_rows);
  const auto rows = [&](std::int64_t first, std::int64_t count) {
    return reader.stack(heads_, [&, first, count](std::int64_t h) {
      return std::vector<HostMatrix>{kv_b.row_range(h * head_rows + first, count)};
    });
  };
  k_up_ = rows(0, mla.nope_dim);
  v_up_ = rows(mla.nope_dim, mla.v_dim);
  k_up_absorbed_ = read_absorbed(reader, backend, config, kv_b);
  o_ = reader.weight(reader.host(prefix + "o_proj").col_range(first_head * mla.v_dim, heads_ * mla.v_dim));
}

WeightStack MlaAttention::read_absorbed(WeightReader& reader, const Backend& backend,
                                        const ModelConfig& config, const HostMatrix& kv_b) const {
  const MlaConfig& mla = config.mla;
  const std::int64_t latent = mla.kv_lora_rank;
  std::vector<float> row(static_cast<std::size_t>(latent));
  std::vector<float> transposed(static_cast<std::size_t>(heads_ * latent * mla.nope_dim));
  for (std::int64_t h = 0; h < heads_; ++h) {
    for (std::int64_t d = 0; d < mla.nope_dim; ++d) {
      kv_b.dequantise_row(h * (mla.nope_dim + mla.v_dim) + d, row.data());
      for (std::int64_t c = 0; c < latent; ++c) {
        transposed[static_cast<std::size_t>((h * latent + c) * mla.nope_dim + d)] =
            row[static_cast<std::size_t>(c)];
      }
    }
  }
  // bf16 holds bf16 exactly; anything else keeps f32 unless the device computes in bf16 anyway.
  const bool narrow = kv_b.format == WeightFormat::kBF16 || backend.activation_dtype() == DType::kBF16;
  return reader.stack_f32(narrow ? WeightFormat::kBF16 : WeightFormat::kF32, heads_, latent, mla.nope_dim,
                          transposed);
}

void MlaAttention::attend(const AttentionFrame& frame, const MlaScratch& scratch, const Tensor& x,
                          const ForwardBatch& batch, const KvLayer& kv, const Tensor& out) const {
  const MlaConfig& mla = frame.config.mla;
  const std::int64_t n = x.rows;
  const std::int64_t first = q_first(mla, heads_);
  const Tensor projected = scratch.q_kv_a.row_range(0, n);
  const Tensor q = scratch.q.row_range(0, n);
  q_kv_a_.apply(frame.backend, x, projected);
  if (mla.q_lora_rank > 0) {
    const Tensor q_normed = scratch.q_normed.row_range(0, n);
    frame.backend.rms_norm(projected.col_range(0, first), q_a_norm_, frame.config.latent_norm_eps, q_normed);
    frame.backend.linear(q_normed, q_b_, q);
  } else {
    frame.backend.copy(projected.col_range(0, first), q);
  }
  const Tensor latent = projected.col_range(first, mla.kv_lora_rank);
  const Tensor rope_key = projected.col_range(first + mla.kv_lora_rank, mla.rope_dim);

  const Tensor attended = scratch.attended.row_range(0, n);
  struct PartRows {
    Tensor q, latent, rope_key, out;
    bool any() const { return q.rows > 0; }
  };
  std::int64_t begin = 0;
  const auto next = [&](const AttentionBatch& part, bool is_absorbed) {
    const auto rows = [&](const Tensor& all) { return all.row_range(begin, part.tokens); };
    const PartRows taken{rows(q), rows(latent), rows(rope_key), rows(attended)};
    begin += part.tokens;
    if (!taken.any()) return taken;
    const Tensor q_rope = taken.q.reshaped(q_dim(mla)).col_range(mla.nope_dim, mla.rope_dim);
    const Tensor q_absorbed = scratch.q_absorbed.row_range(0, is_absorbed ? part.tokens : 0);
    frame.backend.store_mla(
        {.latent = taken.latent,
         .rope_key = taken.rope_key,
         .heads = heads_,
         .q_rope = q_rope,
         .q_rotated = is_absorbed
                          ? q_absorbed.reshaped(row_dim(mla)).col_range(mla.kv_lora_rank, mla.rope_dim)
                          : q_rope},
        kv_a_norm_, frame.config.latent_norm_eps, frame.rope, part, kv);
    return taken;
  };
  if (const PartRows part = next(batch.decode, true); part.any())
    attend_absorbed(frame, scratch, part.q, batch.decode, kv, part.out);
  if (const PartRows part = next(batch.sharded_decode, true); part.any())
    attend_absorbed_sharded(frame, scratch, part.q, batch.sharded_decode, kv, part.out);
  if (const PartRows part = next(batch.prefill, false); part.any()) {
    frame.backend.mla_prefill(part.q, heads_, frame.softmax_scale, batch.prefill, kv, k_up_, v_up_, part.out,
                              Tensor{});
  }
  if (const PartRows part = next(batch.sharded_prefill, false); part.any()) {
    frame.backend.write_kv_mla(part.latent, part.rope_key, batch.staged->own, batch.staged->staging);
    prefill_sharded(frame, scratch, part.q, *batch.staged, kv, part.out);
  }
  frame.backend.linear(attended, o_, out);
}

// q_lat[h] = W_UK[h]^T q_nope[h], beside the rotated part that store_mla has put there.
Tensor MlaAttention::absorb(const AttentionFrame& frame, const MlaScratch& scratch, const Tensor& q) const {
  const MlaConfig& mla = frame.config.mla;
  const Tensor q_absorbed = scratch.q_absorbed.row_range(0, q.rows);
  frame.backend.linear_heads(q, q_dim(mla), k_up_absorbed_, q_absorbed, row_dim(mla));
  return q_absorbed;
}

// Attention over (latent | rope) with one shared key; o[h] = W_UV[h] o_lat[h].
void MlaAttention::attend_absorbed(const AttentionFrame& frame, const MlaScratch& scratch, const Tensor& q,
                                   const AttentionBatch& batch, const KvLayer& kv, const Tensor& out) const {
  const MlaConfig& mla = frame.config.mla;
  const Tensor o_latent = scratch.o_latent.row_range(0, q.rows);
  frame.backend.mla_decode(absorb(frame, scratch, q), heads_, frame.softmax_scale, batch, kv, o_latent,
                           Tensor{});
  frame.backend.linear_heads(o_latent, mla.kv_lora_rank, v_up_, out, mla.v_dim);
}

// The same where each rank has some of the rows: all heads of the group over the rows that are here, then the
// parts of this rank's heads from everywhere, merged.
void MlaAttention::attend_absorbed_sharded(const AttentionFrame& frame, const MlaScratch& scratch,
                                           const Tensor& q, const AttentionBatch& batch, const KvLayer& kv,
                                           const Tensor& out) const {
  const MlaConfig& mla = frame.config.mla;
  const Tensor queries = scratch.exchange.gather_queries(frame.backend, absorb(frame, scratch, q));
  const auto [part, lse] = scratch.exchange.partial(q.rows);
  frame.backend.mla_decode(queries, most_heads_, frame.softmax_scale, batch, kv, part, lse);
  const Tensor o_latent = scratch.o_latent.row_range(0, q.rows);
  scratch.exchange.combine(frame.backend, o_latent);
  frame.backend.linear_heads(o_latent, mla.kv_lora_rank, v_up_, out, mla.v_dim);
}

// The chunk's own rows first, then round by round the earlier ones, merged into what is there.
void MlaAttention::prefill_sharded(const AttentionFrame& frame, const MlaScratch& scratch, const Tensor& q,
                                   const StagedPrefill& staged, const KvLayer& kv, const Tensor& out) const {
  const auto attend = [&](const Tensor& queries, const AttentionBatch& batch, const Tensor& o,
                          const Tensor& lse) {
    frame.backend.mla_prefill(queries, heads_, frame.softmax_scale, batch, staged.staging, k_up_, v_up_, o,
                              lse);
  };
  const auto pair_of = [](const Tensor& a, const Tensor& b) {
    return Parts{.first = a, .count = 2, .step = static_cast<char*>(b.data) - static_cast<char*>(a.data)};
  };
  attend(q, staged.own, out, scratch.lse.row_range(0, q.rows));
  for (const ContextRound& round : staged.rounds) {
    frame.backend.copy_blocks(kv, round.send, staged.blocks_each, staged.send);
    const std::int64_t bytes = staged.blocks_each * kv.block_size * kv.row_bytes;
    dcp_->all_gather(staged.send, staged.gathered, static_cast<std::size_t>(bytes));
    const auto rows = [&](const Tensor& all) { return all.row_range(round.first_token, round.batch.tokens); };
    const Tensor earlier = scratch.earlier.row_range(0, round.batch.tokens);
    const Tensor earlier_lse = scratch.earlier_lse.row_range(0, round.batch.tokens);
    attend(rows(q), round.batch, earlier, earlier_lse);
    frame.backend.merge_partials(pair_of(rows(out), earlier), pair_of(rows(scratch.lse), earlier_lse), heads_,
                                 rows(out), rows(scratch.lse));
  }
}

}  // namespace tessera
