#include "backend/cuda/mla_case.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <sstream>
#include <thread>

#include "backend/cuda/mla_reference.h"
#include "base/check.h"

namespace tessera::cuda {
namespace {

constexpr double kSoftmaxScale = 0.0721687836;  // 1 / sqrt(192), as in the model

// A row of random values in the stored form.
void fill_row(KvFormat format, std::uint8_t* row, float scale, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  const auto put_bf16 = [&](std::uint8_t* at, float value) {
    const std::uint16_t bits = bf16_bits(value);
    std::memcpy(at, &bits, 2);
  };
  if (format == KvFormat::kBF16) {
    for (int i = 0; i < kMlaDim; ++i) put_bf16(row + 2 * i, normal(random));
  } else if (format == KvFormat::kFp8) {
    for (int i = 0; i < kMlaDim; ++i) row[i] = e4m3_bits(normal(random) / scale);
  } else {
    for (int group = 0; group < 4; ++group) {
      float values[128];
      float top = 1e-30F;
      const float spread = std::exp2(static_cast<float>(random() % 7) - 4.0F);  // groups differ by up to 2^6
      for (float& value : values) top = std::max(top, std::abs(value = normal(random) * spread));
      const float group_scale = top / 448.0F;
      for (int i = 0; i < 128; ++i) row[128 * group + i] = e4m3_bits(values[i] / group_scale);
      std::memcpy(row + 512 + 4 * group, &group_scale, 4);
    }
    for (int i = 0; i < kMlaRope; ++i) put_bf16(row + 528 + 2 * i, normal(random));
  }
}

// Whatever the format, every value that could be read from it is not a number: 0x7F7F is no bf16 NaN, so bf16
// gets 0x7FFF.
void poison_row(KvFormat format, std::uint8_t* row, std::int64_t bytes) {
  const std::uint8_t pattern[2] = {0xFF, 0x7F};
  for (std::int64_t i = 0; i < bytes; ++i)
    row[i] = format == KvFormat::kBF16 ? pattern[i % 2] : std::uint8_t{0xFF};
  if (format == KvFormat::kFp8Grouped) {
    for (std::int64_t i = 528; i < bytes; ++i) row[i] = pattern[i % 2];
  }
}

template <class T>
DeviceBytes upload(const std::vector<T>& values) {
  DeviceBytes bytes = allocate_device(std::max<std::size_t>(values.size() * sizeof(T), 16));
  if (!values.empty())
    TS_CUDA(cudaMemcpy(bytes.get(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return bytes;
}

}  // namespace

MlaCase::MlaCase(const MlaCaseOptions& options) : options_(options) {
  std::mt19937_64 random(options.seed);
  const auto seqs = static_cast<std::int32_t>(options.lengths.size());
  const std::int32_t longest = *std::max_element(options.lengths.begin(), options.lengths.end());
  const std::int32_t max_blocks = (longest + 63) / 64 + 2;

  for (std::int32_t seq = 0; seq < seqs; ++seq) {
    const std::int32_t length = options.lengths[static_cast<std::size_t>(seq)];
    for (std::int32_t token = 0; token < options.q_tokens; ++token) {
      std::int32_t rows = std::max(length - (options.q_tokens - 1 - token), 0);
      // A rank holds some of the last rows and not others, so counts rise by 0 or 1, and may be 0 for all.
      if (options.explicit_rows) rows = std::max(length - (options.q_tokens - 1 - token) / 3, 0);
      query_rows_.push_back(rows);
    }
  }

  // Pages: a shuffle, so that neighbours in a sequence are not neighbours in memory.
  std::vector<std::int32_t> used;
  for (const std::int32_t length : options.lengths) used.push_back((length + 63) / 64);
  blocks_ = std::accumulate(used.begin(), used.end(), 0) + 3;
  std::vector<std::int32_t> pages(static_cast<std::size_t>(blocks_));
  std::iota(pages.begin(), pages.end(), 0);
  std::shuffle(pages.begin(), pages.end(), random);
  const std::int64_t row_bytes = *kv_row_bytes(options.kv, KvRowShape::mla(kMlaLatent, kMlaRope));
  kv_.resize(static_cast<std::size_t>(blocks_ * kMlaBlockSize * row_bytes));
  for (std::int64_t r = 0; r < std::int64_t{blocks_} * kMlaBlockSize; ++r) {
    poison_row(options.kv, kv_.data() + r * row_bytes, row_bytes);
  }
  const std::int32_t absurd[] = {std::numeric_limits<std::int32_t>::max(), -1, 1 << 28};
  table_.resize(static_cast<std::size_t>(seqs) * static_cast<std::size_t>(max_blocks));
  for (std::size_t i = 0; i < table_.size(); ++i) table_[i] = absurd[i % 3];
  std::size_t page = 0;
  // Rows repeat with a long period: random enough, and a long case need not draw 10^8 normals.
  constexpr int kDistinct = 2048;
  std::vector<std::uint8_t> distinct(static_cast<std::size_t>(kDistinct * row_bytes));
  for (int i = 0; i < kDistinct; ++i)
    fill_row(options.kv, distinct.data() + i * row_bytes, options.kv_scale, random);
  for (std::int32_t seq = 0; seq < seqs; ++seq) {
    for (std::int32_t b = 0; b < used[static_cast<std::size_t>(seq)]; ++b) {
      const std::int32_t block = pages[page++];
      table_[static_cast<std::size_t>(seq * max_blocks + b)] = block;
      const std::int32_t rows = std::min(options.lengths[static_cast<std::size_t>(seq)] - 64 * b, 64);
      for (std::int32_t r = 0; r < rows; ++r) {
        const auto from = static_cast<std::int64_t>(random() % kDistinct);
        std::memcpy(kv_.data() + (std::int64_t{block} * 64 + r) * row_bytes,
                    distinct.data() + from * row_bytes, static_cast<std::size_t>(row_bytes));
      }
    }
  }
  std::normal_distribution<float> normal(0.0F, options.q_spread);
  q_.resize(static_cast<std::size_t>(seqs * options.q_tokens * options.heads) * kMlaDim);
  for (auto& value : q_) value = bf16_bits(normal(random));

  int device = 0;
  TS_CUDA(cudaGetDevice(&device));
  auto layout = mla_decode_layout({.kv = options.kv,
                                   .seqs = seqs,
                                   .q_tokens = options.q_tokens,
                                   .heads = options.heads,
                                   .max_blocks = max_blocks,
                                   .out_f32 = options.out_f32,
                                   .fixed_split_tiles = options.fixed_split_tiles,
                                   .kernel = options.kernel,
                                   .parts = options.parts,
                                   .fp8_math = options.fp8_math},
                                  traits_of(device));
  TS_CHECK(layout.ok(), layout.error().message());
  layout_ = *layout;
  device_q_ = upload(q_);
  device_kv_ = upload(kv_);
  device_table_ = upload(table_);
  device_rows_ = upload(options.lengths);
  device_query_rows_ = upload(query_rows_);
  const std::size_t rows = static_cast<std::size_t>(seqs * options.q_tokens * options.heads);
  device_out_ = allocate_device(rows * kMlaLatent * 4);
  device_lse_ = allocate_device(rows * 4);
  workspace_ = allocate_device(layout_.workspace_bytes);
  TS_CUDA(cudaMemset(workspace_.get(), 0xFF, layout_.workspace_bytes));  // NaN partial results
}

std::int32_t MlaCase::rows_of(std::int32_t seq, std::int32_t token) const {
  return query_rows_[static_cast<std::size_t>(seq * options_.q_tokens + token)];
}

MlaDecodeLengths MlaCase::device_lengths() const {
  MlaDecodeLengths lengths;
  if (options_.explicit_rows) {
    lengths.query_rows = reinterpret_cast<const std::int32_t*>(device_query_rows_.get());
  } else {
    lengths.kv_rows = reinterpret_cast<const std::int32_t*>(device_rows_.get());
  }
  return lengths;
}

void MlaCase::enqueue(cudaStream_t stream) const {
  const MlaDecodeWork work{
      .q = device_q_.get(),
      .kv = {.data = device_kv_.get(),
             .format = options_.kv,
             .shape = KvRowShape::mla(kMlaLatent, kMlaRope),
             .blocks = blocks_,
             .block_size = kMlaBlockSize,
             .row_bytes = *kv_row_bytes(options_.kv, KvRowShape::mla(kMlaLatent, kMlaRope)),
             .scale = options_.kv_scale},
      .block_table = reinterpret_cast<const std::int32_t*>(device_table_.get()),
      .lengths = device_lengths(),
      .softmax_scale = static_cast<float>(kSoftmaxScale),
      .out = device_out_.get(),
      .lse = reinterpret_cast<float*>(device_lse_.get())};
  const auto planned = mla_plan(layout_, work.lengths, workspace_.get(), stream);
  TS_CHECK(planned.ok(), planned.error().message());
  const auto decoded = mla_decode(layout_, work, workspace_.get(), stream);
  TS_CHECK(decoded.ok(), decoded.error().message());
}

void MlaCase::poison_output() const {
  const std::size_t rows =
      options_.lengths.size() * static_cast<std::size_t>(options_.q_tokens * options_.heads);
  TS_CUDA(cudaMemset(device_out_.get(), 0xFF, rows * kMlaLatent * 4));
  TS_CUDA(cudaMemset(device_lse_.get(), 0xFF, rows * 4));
  TS_CUDA(cudaDeviceSynchronize());
}

MlaCaseOutput MlaCase::take_output() const {
  TS_CUDA(cudaDeviceSynchronize());
  const std::size_t rows =
      options_.lengths.size() * static_cast<std::size_t>(options_.q_tokens * options_.heads);
  MlaCaseOutput output{.out = std::vector<float>(rows * kMlaLatent), .lse = std::vector<float>(rows)};
  TS_CUDA(cudaMemcpy(output.lse.data(), device_lse_.get(), rows * 4, cudaMemcpyDeviceToHost));
  if (options_.out_f32) {
    TS_CUDA(cudaMemcpy(output.out.data(), device_out_.get(), rows * kMlaLatent * 4, cudaMemcpyDeviceToHost));
  } else {
    std::vector<std::uint16_t> bits(rows * kMlaLatent);
    TS_CUDA(cudaMemcpy(bits.data(), device_out_.get(), bits.size() * 2, cudaMemcpyDeviceToHost));
    std::transform(bits.begin(), bits.end(), output.out.begin(), bf16_value);
  }
  return output;
}

MlaCaseOutput MlaCase::run() const {
  poison_output();
  enqueue(nullptr);
  return take_output();
}

MlaCaseOutput MlaCase::run_graph() const {
  cudaStream_t raw = nullptr;
  TS_CUDA(cudaStreamCreate(&raw));
  const Stream stream(raw);
  cudaGraph_t captured = nullptr;
  TS_CUDA(cudaStreamBeginCapture(raw, cudaStreamCaptureModeThreadLocal));
  enqueue(raw);
  TS_CUDA(cudaStreamEndCapture(raw, &captured));
  const Graph graph(captured);
  cudaGraphExec_t instance = nullptr;
  TS_CUDA(cudaGraphInstantiate(&instance, captured, 0));
  const GraphExec exec(instance);
  for (int replay = 0; replay < 2; ++replay) {
    poison_output();
    TS_CUDA(cudaGraphLaunch(instance, raw));
    TS_CUDA(cudaStreamSynchronize(raw));
  }
  return take_output();
}

void MlaCase::shorten(const std::vector<std::int32_t>& lengths) {
  TS_CHECK(!options_.explicit_rows && lengths.size() == options_.lengths.size());
  for (std::size_t seq = 0; seq < lengths.size(); ++seq) {
    TS_CHECK(lengths[seq] <= 64 * (layout_.shape.max_blocks - 2), seq, lengths[seq]);
    for (std::int32_t token = 0; token < options_.q_tokens; ++token) {
      query_rows_[seq * static_cast<std::size_t>(options_.q_tokens) + static_cast<std::size_t>(token)] =
          std::max(lengths[seq] - (options_.q_tokens - 1 - token), 0);
    }
  }
  options_.lengths = lengths;
  TS_CUDA(cudaMemcpy(device_rows_.get(), lengths.data(), lengths.size() * 4, cudaMemcpyHostToDevice));
}

MlaCaseError MlaCase::compare(const MlaCaseOutput& output) const {
  MlaCaseError error;
  for (std::size_t i = 0; i < output.out.size(); ++i) {
    if (std::isfinite(output.out[i])) continue;
    std::ostringstream what;
    what << "out[token " << i / kMlaLatent / static_cast<std::size_t>(options_.heads) << ", head "
         << i / kMlaLatent % static_cast<std::size_t>(options_.heads) << ", " << i % kMlaLatent
         << "] = " << output.out[i];
    return {.out = std::numeric_limits<double>::infinity(), .first_wrong = what.str()};
  }
  struct Sample {
    std::int32_t seq, token, head;
    double out, lse;
  };
  // All heads of small problems, a spread of heads of large ones: about 4e6 rows of float64 work.
  std::int64_t rows_a_head = 1;
  for (const std::int32_t rows : query_rows_) rows_a_head += rows;
  const std::int64_t wanted = std::clamp<std::int64_t>(4'000'000 / rows_a_head, 3, options_.heads);
  const std::int32_t step = static_cast<std::int32_t>(std::max<std::int64_t>(options_.heads / wanted, 1));
  std::vector<Sample> samples;
  for (std::int32_t seq = 0; seq < static_cast<std::int32_t>(options_.lengths.size()); ++seq) {
    for (std::int32_t token = 0; token < options_.q_tokens; ++token) {
      for (std::int32_t head = 0; head < options_.heads; head += step)
        samples.push_back({seq, token, head, 0, 0});
      if ((options_.heads - 1) % step != 0) samples.push_back({seq, token, options_.heads - 1, 0, 0});
    }
  }
  const std::size_t max_blocks = static_cast<std::size_t>(layout_.shape.max_blocks);
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < samples.size(); i = next++) {
      Sample& sample = samples[i];
      const auto row = static_cast<std::size_t>(
          (sample.seq * options_.q_tokens + sample.token) * options_.heads + sample.head);
      const auto reference =
          mla_reference({.q = std::span(q_).subspan(row * kMlaDim, kMlaDim),
                         .format = options_.kv,
                         .kv = kv_.data(),
                         .kv_scale = options_.kv_scale,
                         .block_table = std::span(table_).subspan(
                             static_cast<std::size_t>(sample.seq) * max_blocks, max_blocks),
                         .rows = rows_of(sample.seq, sample.token),
                         .softmax_scale = kSoftmaxScale});
      double difference = 0.0;
      double size = 0.0;
      for (std::size_t d = 0; d < kMlaLatent; ++d) {
        const double delta = output.out[row * kMlaLatent + d] - reference.out[d];
        difference += delta * delta;
        size += reference.out[d] * reference.out[d];
      }
      sample.out = size > 0.0 ? std::sqrt(difference / size) : std::sqrt(difference);
      const double lse = output.lse[row];
      sample.lse =
          lse == reference.lse ? 0.0 : std::abs(lse - reference.lse);  // equal infinities differ by 0
      if (!(sample.lse >= 0.0)) sample.lse = std::numeric_limits<double>::infinity();
    }
  };
  std::vector<std::thread> threads(std::max(1U, std::thread::hardware_concurrency()));
  for (auto& thread : threads) thread = std::thread(work);
  for (auto& thread : threads) thread.join();
  for (const Sample& sample : samples) {
    if (sample.out > error.out || sample.lse > error.lse) {
      std::ostringstream what;
      what << "seq " << sample.seq << " token " << sample.token << " head " << sample.head << " ("
           << rows_of(sample.seq, sample.token) << " rows): out off by " << sample.out << ", lse by "
           << sample.lse;
      error.first_wrong = what.str();
    }
    error.out = std::max(error.out, sample.out);
    error.lse = std::max(error.lse, sample.lse);
  }
  return error;
}

}  // namespace tessera::cuda
