#include "engine/plan_codec.h"

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstring>
#include <string>
#include <type_traits>

#include "base/check.h"

namespace tessera {
namespace {

static_assert(std::endian::native == std::endian::little, "plans are written as they lie in memory");

constexpr std::uint32_t kMagic = 0x4c505354;  // "TSPL"

template <class T, class Struct>
concept Of = std::same_as<std::remove_const_t<T>, Struct>;

// Every field of every struct, once, for both directions. The bindings name all fields, so a new one does not
// compile until it stands here; then raise kPlanCodecVersion.
template <class Archive, Of<SamplingParams> T>
void fields(Archive& archive, T& sampling) {
  auto& [temperature, top_p, top_k, min_p, presence_penalty, frequency_penalty, repetition_penalty, seed,
         logit_bias, max_tokens, min_tokens, ignore_eos, stop_token_ids, logprobs, prompt_logprobs,
         constraint] = sampling;
  (void)constraint;
  archive(temperature, top_p, top_k, min_p, presence_penalty, frequency_penalty, repetition_penalty, seed,
          logit_bias, max_tokens, min_tokens, ignore_eos, stop_token_ids, logprobs, prompt_logprobs);
}
template <class Archive, Of<SequenceStart> T>
void fields(Archive& archive, T& start) {
  auto& [slot, sampling, seed, prompt, output, end_tokens] = start;
  archive(slot, sampling, seed, prompt, output, end_tokens);
}
template <class Archive, Of<SequenceWork> T>
void fields(Archive& archive, T& work) {
  auto& [slot, first_token, count, open_rows, first_position, is_decode, is_sharded, table_row,
         context_owners, samples, drafts_wanted, prompt_logprobs, allowed_mask] = work;
  archive(slot, first_token, count, open_rows, first_position, is_decode, is_sharded, table_row,
          context_owners, samples, drafts_wanted, prompt_logprobs, allowed_mask);
}
template <class Archive, Of<TableWrite> T>
void fields(Archive& archive, T& write) {
  auto& [row, first, count] = write;
  archive(row, first, count);
}
template <class Archive, Of<RankView> T>
void fields(Archive& archive, T& view) {
  auto& [slots, visible_rows, block_table, table_writes] = view;
  archive(slots, visible_rows, table_writes);
  archive.table(block_table, table_writes, 1);
}
template <class Archive, Of<StepPlan> T>
void fields(Archive& archive, T& plan) {
  auto& [step, retired, starts, work, tokens, positions, views, max_blocks, table_rows, context_owners,
         shared_table, shared_writes, next_tokens, allowed_masks] = plan;
  archive(step, max_blocks, table_rows);
  archive.tables_are(max_blocks, table_rows);
  archive(retired, starts, work, tokens, positions, views, context_owners, shared_writes);
  archive.table(shared_table, shared_writes, static_cast<std::int32_t>(views.size()));
  archive(next_tokens, allowed_masks);
}

template <class T>
concept Number = std::is_arithmetic_v<T>;

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(out) {}

  template <class... Ts>
  void operator()(const Ts&... values) {
    (one(values), ...);
  }
  void tables_are(std::int32_t max_blocks, std::int32_t) {
    max_blocks_ = static_cast<std::size_t>(max_blocks);
  }
  void table(const std::vector<std::int32_t>& entries, const std::vector<TableWrite>& writes, std::int32_t) {
    for (const TableWrite& write : writes) {
      const std::size_t first =
          static_cast<std::size_t>(write.row) * max_blocks_ + static_cast<std::size_t>(write.first);
      bytes(entries.data() + first, static_cast<std::size_t>(write.count) * sizeof(std::int32_t));
    }
  }

 private:
  void bytes(const void* data, std::size_t size) {
    const std::size_t at = out_.size();
    out_.resize(at + size);
    if (size > 0) std::memcpy(out_.data() + at, data, size);
  }
  template <Number T>
  void one(const T& value) {
    bytes(&value, sizeof value);
  }
  void one(const bool& value) { one(static_cast<std::uint8_t>(value)); }
  template <class T>
  void one(const std::optional<T>& value) {
    one(value.has_value());
    if (value) one(*value);
  }
  template <class A, class B>
  void one(const std::pair<A, B>& value) {
    one(value.first);
    one(value.second);
  }
  template <class T>
  void one(const std::vector<T>& values) {
    one(static_cast<std::uint32_t>(values.size()));
    if constexpr (std::is_arithmetic_v<T>) {
      bytes(values.data(), values.size() * sizeof(T));
    } else {
      for (const T& value : values) one(value);
    }
  }
  template <class T>
  requires std::is_class_v<T>
  void one(const T& value) { fields(*this, value); }

  std::vector<std::byte>& out_;
  std::size_t max_blocks_ = 0;
};

// Reads until something does not fit; then everything further is zero or empty, and failed() says so.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes, const PlanLimits& limits)
      : rest_(bytes), limits_(limits) {}

  bool failed() const { return failed_; }
  std::size_t left() const { return rest_.size(); }

  template <class... Ts>
  void operator()(Ts&... values) {
    (one(values), ...);
  }
  void tables_are(std::int32_t max_blocks, std::int32_t table_rows) {
    if (max_blocks != limits_.max_blocks() || table_rows != limits_.table_rows()) fail();
  }
  // Entries are blocks of one rank, or of `ranks` together.
  void table(std::vector<std::int32_t>& entries, const std::vector<TableWrite>& writes, std::int32_t ranks) {
    const std::int32_t max_blocks = limits_.max_blocks();
    std::int32_t last_row = -1;
    for (const TableWrite& write : writes) {
      if (write.row < 0 || write.row == last_row || write.row >= limits_.table_rows() || write.first < 0 ||
          write.count < 0 || write.first > max_blocks || write.count > max_blocks - write.first)
        return fail();
      last_row = write.row;
      const std::size_t first = static_cast<std::size_t>(write.row) * static_cast<std::size_t>(max_blocks) +
                                static_cast<std::size_t>(write.first);
      if (entries.size() < first + static_cast<std::size_t>(write.count)) return fail();
      bytes(entries.data() + first, static_cast<std::size_t>(write.count) * sizeof(std::int32_t));
      for (std::size_t i = first; i < first + static_cast<std::size_t>(write.count); ++i) {
        if (entries[i] < -1 || entries[i] >= std::int64_t{limits_.kv_blocks} * ranks) return fail();
      }
    }
  }

 private:
  void fail() {
    failed_ = true;
    rest_ = {};
  }
  void bytes(void* data, std::size_t size) {
    if (size > rest_.size()) return fail();
    if (size > 0) std::memcpy(data, rest_.data(), size);
    rest_ = rest_.subspan(size);
  }
  template <Number T>
  void one(T& value) {
    value = {};
    bytes(&value, sizeof value);
  }
  void one(bool& value) {
    std::uint8_t byte = 0;
    one(byte);
    if (byte > 1) fail();
    value = byte == 1;
  }
  template <class T>
  void one(std::optional<T>& value) {
    bool present = false;
    one(present);
    value.reset();
    if (present) one(value.emplace());
  }
  template <class A, class B>
  void one(std::pair<A, B>& value) {
    one(value.first);
    one(value.second);
  }
  template <class T>
  void one(std::vector<T>& values) {
    std::uint32_t count = 0;
    one(count);
    // An entry takes at least a byte (a number its size), so the bytes bound what is allocated.
    constexpr std::size_t kLeast = std::is_arithmetic_v<T> ? sizeof(T) : 1;
    if (count > rest_.size() / kLeast) {
      values.clear();
      return fail();
    }
    if constexpr (std::is_arithmetic_v<T>) {
      values.resize(count);
      bytes(values.data(), count * sizeof(T));
    } else {
      // One by one, so that a list of large structs is no larger than what was really sent.
      if (values.size() > count) values.resize(count);
      for (std::uint32_t i = 0; i < count && !failed_; ++i) {
        if (i == values.size()) values.emplace_back();
        one(values[i]);
      }
    }
  }
  template <class T>
  requires std::is_class_v<T>
  void one(T& value) { fields(*this, value); }

  std::span<const std::byte> rest_;
  const PlanLimits& limits_;
  bool failed_ = false;
};

Error corrupt(std::string what) { return {ErrorKind::kCorrupt, "step plan", std::move(what)}; }

std::string between(const char* thing, std::int64_t value, std::int64_t low, std::int64_t high) {
  return std::string(thing) + " is " + std::to_string(value) + "; it must lie between " +
         std::to_string(low) + " and " + std::to_string(high) + ".";
}
// [low, high]
Result<void> in_range(const char* thing, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return {};
  return corrupt(between(thing, value, low, high));
}
template <class List>
std::int64_t count_of(const List& list) {
  return static_cast<std::int64_t>(list.size());
}
template <class T>
Result<void> all_in_range(const char* thing, const std::vector<T>& values, std::int64_t low,
                          std::int64_t high) {
  for (const T value : values) {
    if (value < low || value > high) return corrupt(between(thing, value, low, high));
  }
  return {};
}

}  // namespace

void encode_plan(const StepPlan& plan, std::vector<std::byte>& out) {
  out.clear();
  Writer writer(out);
  writer(kMagic, kPlanCodecVersion);
  fields(writer, plan);
}

PlanDecoder::PlanDecoder(const PlanLimits& limits) : limits_(limits) {
  plan_.max_blocks = limits.max_blocks();
  plan_.table_rows = limits.table_rows();
  plan_.views.resize(static_cast<std::size_t>(limits.dcp_ranks));
  const auto entries =
      static_cast<std::size_t>(plan_.table_rows) * static_cast<std::size_t>(plan_.max_blocks);
  for (RankView& view : plan_.views) view.block_table.assign(entries, -1);
  if (limits.shared_table) plan_.shared_table.assign(entries, -1);
}

Result<const StepPlan*> PlanDecoder::decode(std::span<const std::byte> bytes) {
  if (broken_) return corrupt("An earlier plan could not be read.");
  broken_ = true;  // until this one is known to be good
  Reader reader(bytes, limits_);
  std::uint32_t magic = 0;
  std::uint32_t version = 0;
  reader(magic, version);
  if (magic != kMagic) return corrupt("The bytes do not begin like a plan.");
  if (version != kPlanCodecVersion) {
    return Error{ErrorKind::kMismatch, "step plan",
                 "It has version " + std::to_string(version) + ", this program reads version " +
                     std::to_string(kPlanCodecVersion) + "; start the same program everywhere."};
  }
  fields(reader, plan_);
  if (reader.failed())
    return corrupt("Its " + std::to_string(bytes.size()) + " bytes do not fit its counts.");
  if (reader.left() > 0)
    return corrupt(std::to_string(reader.left()) + " of its " + std::to_string(bytes.size()) +
                   " bytes are left over.");
  TS_TRY(check());
  broken_ = false;
  return &plan_;
}

Result<void> PlanDecoder::check() const {
  const PlanLimits& l = limits_;
  const std::int64_t tokens = count_of(plan_.tokens);
  TS_TRY(in_range("the number of query tokens", tokens, 0, l.max_plan_tokens()));
  TS_TRY(in_range("the number of sequences", count_of(plan_.work), 0, l.max_num_seqs));
  TS_TRY(in_range("the number of positions", count_of(plan_.positions), tokens, tokens));
  TS_TRY(in_range("the number of next tokens", count_of(plan_.next_tokens), tokens, tokens));
  TS_TRY(in_range("the number of views", count_of(plan_.views), l.dcp_ranks, l.dcp_ranks));
  TS_TRY(in_range("the number of context owners", count_of(plan_.context_owners), 0, l.max_blocks()));
  TS_TRY(in_range("the number of token masks", count_of(plan_.allowed_masks), 0,
                  std::int64_t{l.max_num_seqs} * (1 + l.max_drafts)));
  TS_TRY(all_in_range("a token", plan_.tokens, -1, l.vocab - 1));
  TS_TRY(all_in_range("a next token", plan_.next_tokens, -1, l.vocab - 1));
  TS_TRY(all_in_range("a position", plan_.positions, 0, l.max_model_len - 1));
  TS_TRY(all_in_range("a context owner", plan_.context_owners, 0, l.dcp_ranks - 1));
  TS_TRY(all_in_range("a retired slot", plan_.retired, 0, l.max_num_seqs - 1));
  for (const RankView& view : plan_.views) {
    TS_TRY(in_range("the number of cache rows", count_of(view.slots), tokens, tokens));
    TS_TRY(in_range("the number of visible rows", count_of(view.visible_rows), tokens, tokens));
    TS_TRY(all_in_range("a cache row", view.slots, -1, std::int64_t{l.kv_blocks} * l.block_size - 1));
    TS_TRY(all_in_range("a token's visible rows", view.visible_rows, 0,
                        std::int64_t{l.max_blocks()} * l.block_size));
  }
  const std::int64_t mask_words = (l.vocab + 63) / 64;
  for (const auto& mask : plan_.allowed_masks)
    TS_TRY(in_range("the length of a token mask", count_of(mask), mask_words, mask_words));
  TS_TRY(check_work());
  return check_starts();
}

Result<void> PlanDecoder::check_work() const {
  const PlanLimits& l = limits_;
  const std::int64_t tokens = count_of(plan_.tokens);
  std::int64_t next = 0;
  std::int64_t rows = 0;  // that run at most
  int last_form = 0;
  std::int64_t next_row = -1;  // of the table, within a form
  for (const SequenceWork& work : plan_.work) {
    TS_TRY(in_range("a sequence's slot", work.slot, 0, l.max_num_seqs - 1));
    TS_TRY(in_range("a sequence's first token", work.first_token, next, next));
    TS_TRY(in_range("a sequence's query tokens", work.count, 1, tokens - next));
    TS_TRY(in_range("a sequence's first position", work.first_position, 0, l.max_model_len - work.count));
    const std::int64_t masks = work.is_decode ? work.count : 1;
    const std::int64_t last_mask = std::max<std::int64_t>(count_of(plan_.allowed_masks) - masks, -1);
    TS_TRY(in_range("a sequence's token mask", work.allowed_mask, -1, work.open_rows > 0 ? -1 : last_mask));
    TS_TRY(in_range("a sequence's prompt logprobs", work.prompt_logprobs, -1, l.vocab));
    if (work.is_sharded && l.dcp_ranks == 1) return corrupt("A sequence is sharded over one rank.");
    const int form = (work.is_decode ? 0 : 2) + (work.is_sharded ? 1 : 0);
    if (form < last_form)
      return corrupt("A decode follows a prefill, or a replicated sequence a sharded one.");
    if (form != last_form || next_row < 0) {
      TS_TRY(in_range("a sequence's table row", work.table_row, 0, l.table_rows() - 1));
    } else {
      TS_TRY(in_range("a sequence's table row", work.table_row, next_row, next_row));
      TS_TRY(in_range("a sequence's table row", work.table_row, 0, l.table_rows() - 1));
    }
    TS_TRY(in_range("a sequence's wanted drafts", work.drafts_wanted, 0, l.max_drafts));
    if (work.open_rows == 0) {
      rows += work.count;
      if (work.is_decode) TS_TRY(in_range("a sequence's drafts", work.count - 1, 0, l.max_drafts));
    } else {
      rows += work.open_rows;
      const std::int32_t most = work.is_decode ? std::min(work.count, 1 + l.max_drafts) : 0;
      TS_TRY(in_range("a sequence's open rows", work.open_rows, 1, most));
      TS_TRY(in_range("a sequence's places", work.count, 1, work.open_rows + l.max_drafts));
    }
    const bool gathers = work.is_sharded && !work.is_decode;
    const std::int64_t earlier =
        gathers ? (std::int64_t{work.first_position} + l.block_size - 1) / l.block_size : 0;
    TS_TRY(in_range("where a sequence's context owners begin", work.context_owners, gathers ? 0 : -1,
                    gathers ? count_of(plan_.context_owners) - earlier : -1));
    last_form = form;
    next_row = work.table_row + 1;
    next += work.count;
  }
  TS_TRY(in_range("the rows of all sequences", rows, 0, l.max_num_batched_tokens));
  return in_range("the query tokens of all sequences", next, tokens, tokens);
}

Result<void> PlanDecoder::check_starts() const {
  const PlanLimits& l = limits_;
  for (const SequenceStart& start : plan_.starts) {
    TS_TRY(in_range("a new sequence's slot", start.slot, 0, l.max_num_seqs - 1));
    TS_TRY(in_range("a new sequence's length", count_of(start.prompt) + count_of(start.output), 1,
                    l.max_model_len));
    TS_TRY(all_in_range("a prompt's token", start.prompt, 0, l.vocab - 1));
    TS_TRY(all_in_range("an output's token", start.output, 0, l.vocab - 1));
    TS_TRY(all_in_range("an end token", start.end_tokens, 0, l.vocab - 1));
    if (const auto valid = start.sampling.validate(l.vocab); !valid) return corrupt(valid.error().message());
  }
  return {};
}

}  // namespace tessera
