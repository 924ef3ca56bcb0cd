#include "checkpoint/binding.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "checkpoint/tensor_naming.h"

namespace tessera {
namespace {

constexpr std::int64_t kInt4Group = 32;
constexpr std::int64_t kFp8Block = 128;
constexpr std::size_t kShapeThreads = 8;           // small reads in flight, on a cold disk
constexpr std::size_t kShapesWorthThreads = 4096;  // fewer are read faster than threads start

// Suffixes of formats that we recognise only to name them in an error.
struct ForeignSuffix {
  std::string_view suffix;
  std::string_view meaning;
};
constexpr ForeignSuffix kForeignSuffixes[] = {
    {".weight_packed", "a packed form of a matrix that is never quantised"},
    {".weight_scale_2", "NVFP4 (ModelOpt)"},
    {".weight_global_scale", "NVFP4 (compressed-tensors)"},
    {".input_scale", "static activation scales"},
    {".input_global_scale", "static activation scales"},
    {".weight_zero_point", "asymmetric quantisation"},
    {".weight_g_idx", "activation-ordered quantisation"},
    {".qweight", "GPTQ or AWQ"},
    {".qzeros", "GPTQ or AWQ"},
    {".bias", "a linear layer with a bias"},
};

class Binder {
 public:
  Binder(const ModelConfig& config, const TensorFiles& files, IgnoreRules rules)
      : config_(config), files_(files), naming_(naming_of(config, files)), rules_(std::move(rules)) {
    for (const TensorFile& file : files.files()) used_.emplace_back(file.header.entries.size(), false);
  }

  Result<Binding> run() {
    std::vector<Parameter> parameters = parameters_of(config_);
    binding_.parameters.reserve(parameters.size());
    for (Parameter& parameter : parameters) TS_TRY(bind_one(std::move(parameter)));
    TS_TRY(account_for_the_rest());
    TS_TRY(check_expert_formats());
    TS_TRY(check_weight_shapes());
    TS_TRY(check_token_maps());
    realign();
    for (std::size_t i = 0; i < binding_.parameters.size(); ++i) {
      binding_.index.emplace(binding_.parameters[i].parameter.name, i);
      binding_.bytes += binding_.parameters[i].bytes;
    }
    finish_notes();
    return std::move(binding_);
  }

 private:
  using Ref = TensorFiles::Ref;

  // --- one parameter
  Result<void> bind_one(Parameter parameter) {
    stored_ = naming_.stored(parameter.name);
    BoundParameter bound{.parameter = std::move(parameter)};
    const Parameter& p = bound.parameter;
    // Packed first: nearly all matrices of a large model are. A weight beside it is left over and found
    // later.
    const std::optional<Ref> packed =
        p.role == ParameterRole::kLinear ? find(".weight_packed") : std::nullopt;
    const std::optional<Ref> plain = packed ? std::nullopt : find(p.has_weight_suffix ? ".weight" : "");
    if (!plain && !packed) {
      if (p.optional) return {};
      return Error{
          ErrorKind::kNotFound, where_missing(stored_ + (p.has_weight_suffix ? ".weight" : "")),
          "The tensor is missing: " + config_.architecture_name + " needs it as " + shape_of(p) + "."};
    }
    if (packed) {
      TS_TRY(bind_int4(bound, *packed));
    } else if (p.is_matrix()) {
      TS_TRY(bind_plain_or_fp8(bound, *plain));
    } else {
      TS_TRY(bind_values(bound, *plain));
    }
    if (p.is_matrix()) compare_with_rules(bound);
    binding_.parameters.push_back(std::move(bound));
    return {};
  }

  Result<void> bind_values(BoundParameter& bound, Ref ref) {
    const Parameter& p = bound.parameter;
    const bool is_map = p.role == ParameterRole::kTokenMap;
    const DType dtype = files_.entry(ref).dtype.value_or(DType::kF16);  // neither fits
    const bool fits = is_map ? dtype == DType::kI64 || dtype == DType::kI32 ||
                                   (p.name == "t2d" && (dtype == DType::kBool || dtype == DType::kU8))
                             : dtype == DType::kF32 || dtype == DType::kBF16;
    if (!fits) return bad_dtype(ref, is_map ? "I64" : "BF16 or F32");
    TS_TRY(check_shape(ref, {p.rows}));
    use(ref);
    bound.dtype = dtype;
    bound.weight = {.out = p.rows, .in = 1, .data = data(ref), .data_stride = bytes_of(dtype)};
    bound.bytes = files_.entry(ref).bytes();
    bound.file = ref.file;
    // Sums of scores and biases decide between experts that lie 1e-3 apart; bf16 keeps three digits.
    if (p.module_class == ModuleClass::kRouter && dtype == DType::kBF16) ++bf16_router_biases_;
    return {};
  }

  Result<void> bind_plain_or_fp8(BoundParameter& bound, Ref ref) {
    const Parameter& p = bound.parameter;
    const TensorEntry& entry = files_.entry(ref);
    if (entry.dtype == DType::kF8E4M3) return bind_fp8(bound, ref);
    if (entry.dtype != DType::kBF16 && entry.dtype != DType::kF32) {
      if (find(".weight_scale_2"))
        return bad(ref, ErrorKind::kUnsupported, "The matrix is NVFP4 (ModelOpt)" + supported());
      return bad_dtype(ref, p.role == ParameterRole::kLinear ? "BF16, F32 or F8_E4M3" : "BF16 or F32");
    }
    TS_TRY(check_shape(ref, {p.rows, p.cols}));
    use(ref);
    bound.dtype = *entry.dtype;
    bound.weight = {.format = bound.dtype == DType::kBF16 ? WeightFormat::kBF16 : WeightFormat::kF32,
                    .out = p.rows,
                    .in = p.cols,
                    .data = data(ref),
                    .data_stride = p.cols * bytes_of(bound.dtype)};
    finish(bound, ref, {});
    return {};
  }

  Result<void> bind_fp8(BoundParameter& bound, Ref ref) {
    const Parameter& p = bound.parameter;
    if (p.role != ParameterRole::kLinear) return bad_dtype(ref, "BF16 or F32, as it is never quantised");
    TS_TRY(check_shape(ref, {p.rows, p.cols}));
    std::optional<Ref> scale = find(".weight_scale_inv");  // a multiplier all the same
    if (!scale) scale = find(".weight_scale");
    if (!scale) return missing_part(ref, ".weight_scale_inv", "fp8");
    if (files_.entry(*scale).dtype != DType::kF32) return bad_dtype(*scale, "F32");
    const std::int64_t scale_cols = (p.cols + kFp8Block - 1) / kFp8Block;
    TS_TRY(check_shape(*scale, {(p.rows + kFp8Block - 1) / kFp8Block, scale_cols}));
    use(ref);
    use(*scale);
    bound.dtype = DType::kF8E4M3;
    bound.tensors = 2;
    bound.weight = {.format = WeightFormat::kFp8Block128,
                    .out = p.rows,
                    .in = p.cols,
                    .data = data(ref),
                    .data_stride = p.cols,
                    .scale = data(*scale),
                    .scale_stride = scale_cols * 4};
    finish(bound, ref, scale);
    return {};
  }

  Result<void> bind_int4(BoundParameter& bound, Ref packed) {
    const Parameter& p = bound.parameter;
    const std::optional<Ref> scale = find(".weight_scale");
    const std::optional<Ref> shape = find(".weight_shape");
    if (p.cols % kInt4Group != 0) {
      return bad(packed, ErrorKind::kUnsupported,
                 "int4 in groups of 32 needs a width that 32 divides, but " + shape_of(p) + " has " +
                     std::to_string(p.cols) + ".");
    }
    if (files_.entry(packed).dtype == DType::kU8 && find(".weight_global_scale")) {
      return bad(packed, ErrorKind::kUnsupported, "The matrix is NVFP4 (compressed-tensors)" + supported());
    }
    if (!scale) return missing_part(packed, ".weight_scale", "int4");
    if (!shape) return missing_part(packed, ".weight_shape", "int4");
    if (files_.entry(packed).dtype != DType::kI32) return bad_dtype(packed, "I32");
    TS_TRY(check_shape(packed, {p.rows, p.cols / 8}));
    if (files_.entry(*scale).dtype != DType::kBF16) return bad_dtype(*scale, "BF16");
    TS_TRY(check_shape(*scale, {p.rows, p.cols / kInt4Group}));
    const auto shape_dtype = files_.entry(*shape).dtype;
    if (shape_dtype != DType::kI32 && shape_dtype != DType::kI64) return bad_dtype(*shape, "I32 or I64");
    TS_TRY(check_shape(*shape, {2}));
    use(packed);
    use(*scale);
    use(*shape);
    shapes_.push_back({*shape, p.rows, p.cols});
    bound.dtype = DType::kI32;
    bound.tensors = 3;
    bound.weight = {.format = WeightFormat::kInt4Group32,
                    .out = p.rows,
                    .in = p.cols,
                    .data = data(packed),
                    .data_stride = p.cols / 2,
                    .scale = data(*scale),
                    .scale_stride = p.cols / kInt4Group * 2};
    finish(bound, packed, scale);
    return {};
  }

  void finish(BoundParameter& bound, Ref ref, std::optional<Ref> scale) {
    bound.bytes = files_.entry(ref).bytes() + (scale ? files_.entry(*scale).bytes() : 0);
    bound.file = ref.file;
  }

  // --- rules
  void compare_with_rules(const BoundParameter& bound) {
    const Parameter& p = bound.parameter;
    const bool ignored = rules_.match(p.name, stored_);
    if (p.role != ParameterRole::kLinear || config_.quantisation.scheme == QuantisationScheme::kNone) return;
    const WeightFormat format = bound.weight.format;
    const bool quantised = format == WeightFormat::kInt4Group32 || format == WeightFormat::kFp8Block128;
    if (quantised && ignored) {
      count(quantised_though_ignored_, p.name);
    } else if (!quantised && !ignored && p.module_class != ModuleClass::kHead) {
      count(plain_though_not_ignored_, p.name);
    }
  }

  // --- everything else in the files
  Result<void> account_for_the_rest() {
    for (std::size_t f = 0; f < used_.size(); ++f) {
      const TensorFile& file = files_.files()[f];
      for (std::size_t e = 0; e < used_[f].size(); ++e) {
        if (used_[f][e]) continue;
        const TensorEntry& entry = file.header.entries[e];
        const auto reason = may_skip(config_, naming_, entry.name);
        if (!reason) return unexpected(file, entry);
        Skipped& skipped = skipped_[static_cast<std::size_t>(*reason)];
        ++skipped.tensors;
        skipped.bytes += entry.bytes();
        const std::size_t dot = entry.name.rfind('.');
        const std::string_view module = entry.name.substr(0, dot);
        (void)rules_.match(module, module);  // rules may speak of skipped modules
      }
    }
    return {};
  }

  Error unexpected(const TensorFile& file, const TensorEntry& entry) const {
    const std::string where = file.name + ": " + std::string(entry.name);
    if (entry.name.ends_with(".weight") && files_.tensors().contains(std::string(entry.name) + "_packed")) {
      return {ErrorKind::kCorrupt, where, "The matrix is there twice: as weight and as weight_packed."};
    }
    for (const ForeignSuffix& foreign : kForeignSuffixes) {
      if (entry.name.ends_with(foreign.suffix)) {
        return {ErrorKind::kUnsupported, where,
                "The tensor is unexpected: it belongs to " + std::string(foreign.meaning) + supported()};
      }
    }
    return {ErrorKind::kMismatch, where,
            "The tensor is unexpected: " + config_.architecture_name +
                " with this config.json has no such parameter (it is " + std::string(entry.stored_dtype) +
                " " + shape_text(entry.dims()) + ")."};
  }

  // --- whole-model checks
  // The experts of a layer are one stack in one format on the device.
  Result<void> check_expert_formats() const {
    const BoundParameter* first = nullptr;
    for (const BoundParameter& bound : binding_.parameters) {
      if (bound.parameter.module_class != ModuleClass::kRoutedExpert) continue;
      if (first == nullptr || first->parameter.layer != bound.parameter.layer) first = &bound;
      if (first->weight.format == bound.weight.format) continue;
      return Error{ErrorKind::kUnsupported,
                   files_.files()[static_cast<std::size_t>(bound.file)].name + ": " +
                       naming_.stored(bound.parameter.name),
                   "The matrix is " + std::string(name_of(bound.weight.format)) + ", but " +
                       first->parameter.name + " is " + std::string(name_of(first->weight.format)) +
                       "; the experts of a layer must share one format."};
    }
    return {};
  }

  struct ShapeTensor {
    Ref ref;
    std::int64_t rows;
    std::int64_t cols;
  };
  std::array<std::int64_t, 2> read_shape(Ref ref) const {
    std::array<std::int64_t, 2> values{};
    const bool narrow = files_.entry(ref).dtype == DType::kI32;
    for (std::size_t i = 0; i < 2; ++i) {
      if (narrow) {
        std::int32_t value = 0;
        std::memcpy(&value, data(ref) + i * sizeof value, sizeof value);
        values[i] = value;
      } else {
        std::memcpy(&values[i], data(ref) + i * sizeof values[i], sizeof values[i]);
      }
    }
    return values;
  }

  // weight_shape repeats [out, in] as data: two numbers for each matrix, spread over all files.
  Result<void> check_weight_shapes() const {
    if (shapes_.empty()) return {};
    for (const TensorFile& file : files_.files()) advise_random(file.map.bytes());
    std::atomic<std::size_t> next{0};
    std::atomic<std::size_t> first_bad{shapes_.size()};
    const auto work = [&] {
      constexpr std::size_t kPiece = 64;
      for (std::size_t start = next.fetch_add(kPiece); start < shapes_.size();
           start = next.fetch_add(kPiece)) {
        for (std::size_t i = start; i < std::min(start + kPiece, shapes_.size()); ++i) {
          const ShapeTensor& shape = shapes_[i];
          if (read_shape(shape.ref) == std::array{shape.rows, shape.cols}) continue;
          std::size_t seen = first_bad.load();
          while (i < seen && !first_bad.compare_exchange_weak(seen, i)) {
          }
        }
      }
    };
    if (shapes_.size() < kShapesWorthThreads) {
      work();
    } else {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < kShapeThreads; ++i) threads.emplace_back(work);
    }
    for (const TensorFile& file : files_.files()) advise_sequential(file.map.bytes());
    if (first_bad == shapes_.size()) return {};
    const ShapeTensor& shape = shapes_[first_bad];
    return bad(shape.ref, ErrorKind::kMismatch,
               "It holds " + shape_text(read_shape(shape.ref)) + ", expected " +
                   shape_text(std::array{shape.rows, shape.cols}) + ".");
  }

  // d2t[k] is the distance from draft token k to its target token, so that k + d2t[k] increases.
  Result<void> check_token_maps() const {
    for (const BoundParameter& bound : binding_.parameters) {
      if (bound.parameter.name != "d2t") continue;
      std::int64_t previous = -1;
      for (std::int64_t k = 0; k < bound.parameter.rows; ++k) {
        std::int64_t offset = 0;
        const auto* at = static_cast<const std::byte*>(bound.weight.data) + k * bound.weight.data_stride;
        if (bound.dtype == DType::kI64) {
          std::memcpy(&offset, at, sizeof offset);
        } else {
          std::int32_t narrow = 0;
          std::memcpy(&narrow, at, sizeof narrow);
          offset = narrow;
        }
        std::int64_t token = 0;
        const bool over = __builtin_add_overflow(k, offset, &token);
        if (over || token <= previous || token >= config_.vocab) {
          return Error{ErrorKind::kCorrupt,
                       files_.files()[static_cast<std::size_t>(bound.file)].name + ": d2t",
                       "Draft token " + std::to_string(k) + " has offset " + std::to_string(offset) +
                           "; k + d2t[k] must increase and stay below the vocabulary of " +
                           std::to_string(config_.vocab) + "."};
        }
        previous = token;
      }
    }
    return {};
  }

  // Headers of odd length put tensors at odd addresses, which kernels cannot read: these matrices are copied.
  void realign() {
    const auto fix = [&](const void*& pointer, std::int64_t bytes, std::int64_t element) {
      if (pointer == nullptr ||
          reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(element) == 0)
        return;
      auto copy = std::make_unique<std::byte[]>(static_cast<std::size_t>(bytes));
      std::memcpy(copy.get(), pointer, static_cast<std::size_t>(bytes));
      pointer = copy.get();
      binding_.realigned.push_back(std::move(copy));
      realigned_bytes_ += bytes;
    };
    for (BoundParameter& bound : binding_.parameters) {
      if (!bound.parameter.is_matrix()) continue;
      HostMatrix& m = bound.weight;
      const std::int64_t data_bytes = m.out * m.data_stride;
      fix(m.data, data_bytes, bytes_of(bound.dtype));
      fix(m.scale, bound.bytes - data_bytes, m.format == WeightFormat::kFp8Block128 ? 4 : 2);
    }
  }

  void finish_notes() {
    std::vector<std::string>& notes = binding_.notes;
    notes = files_.notes();
    for (int i = 0; i < kSkipReasons; ++i) {
      const Skipped& skipped = skipped_[static_cast<std::size_t>(i)];
      if (skipped.tensors == 0) continue;
      notes.push_back("skipped " + std::to_string(skipped.tensors) + " " +
                      std::string(explain(static_cast<SkipReason>(i))) + ", " +
                      std::to_string(skipped.bytes) + " bytes");
    }
    binding_.rules = rules_.report();
    for (const RuleMatch& rule : binding_.rules) {
      if (rule.modules == 0)
        notes.push_back("warning: the ignore rule \"" + rule.rule + "\" matches no module");
    }
    const auto surprise = [&](const Surprise& s, const char* what) {
      if (s.modules == 0) return;
      notes.push_back("warning: " + std::to_string(s.modules) + " modules " + what + ", the first is " +
                      s.first + "; the files decide");
    };
    surprise(quantised_though_ignored_, "are quantised although an ignore rule matches");
    surprise(plain_though_not_ignored_, "are not quantised although no ignore rule matches");
    if (bf16_router_biases_ > 0) {
      notes.push_back("warning: " + std::to_string(bf16_router_biases_) +
                      " e_score_correction_bias tensors are BF16; at near ties other experts may be chosen "
                      "than with F32");
    }
    if (realigned_bytes_ > 0) {
      notes.push_back(std::to_string(binding_.realigned.size()) +
                      " matrices lie at odd addresses and were copied to memory, " +
                      std::to_string(realigned_bytes_) + " bytes; saving the file anew avoids that");
    }
  }

  // --- small things
  std::optional<Ref> find(std::string_view suffix) {
    key_.assign(stored_).append(suffix);
    const auto at = files_.tensors().find(key_);
    return at == files_.tensors().end() ? std::nullopt : std::optional(at->second);
  }
  const std::byte* data(Ref ref) const { return files_.file(ref).data_of(files_.entry(ref)); }
  void use(Ref ref) { used_[static_cast<std::size_t>(ref.file)][static_cast<std::size_t>(ref.entry)] = true; }

  static std::string shape_of(const Parameter& p) {
    return p.is_matrix() ? shape_text(std::array{p.rows, p.cols}) : shape_text(std::array{p.rows});
  }
  static std::string supported() {
    return "; supported are bf16, f32, int4 in groups of 32 and fp8 in 128x128 blocks.";
  }
  std::string where_missing(const std::string& tensor) const {
    const auto& files = files_.files();
    return (files.size() == 1 ? files.front().name : std::to_string(files.size()) + " safetensors files") +
           ": " + tensor;
  }
  Error bad(Ref ref, ErrorKind kind, std::string what) const {
    return {kind, files_.file(ref).name + ": " + std::string(files_.entry(ref).name), std::move(what)};
  }
  Error bad_dtype(Ref ref, const std::string& expected) const {
    return bad(
        ref, ErrorKind::kMismatch,
        "Its dtype is " + std::string(files_.entry(ref).stored_dtype) + ", expected " + expected + ".");
  }
  Error missing_part(Ref ref, const std::string& suffix, const char* format) const {
    return {ErrorKind::kNotFound, files_.file(ref).name + ": " + stored_ + suffix,
            "The tensor is missing: the " + std::string(format) + " matrix needs it beside " +
                std::string(files_.entry(ref).name) + "."};
  }
  Result<void> check_shape(Ref ref, std::initializer_list<std::int64_t> expected) const {
    const auto dims = files_.entry(ref).dims();
    if (std::ranges::equal(dims, expected)) return {};
    return bad(ref, ErrorKind::kMismatch,
               "Its shape is " + shape_text(dims) + ", expected " +
                   shape_text({expected.begin(), expected.size()}) + " by config.json.");
  }

  struct Surprise {
    std::int64_t modules = 0;
    std::string first;
  };
  static void count(Surprise& surprise, const std::string& name) {
    if (surprise.modules++ == 0) surprise.first = name;
  }
  struct Skipped {
    std::int64_t tensors = 0;
    std::int64_t bytes = 0;
  };

  const ModelConfig& config_;
  const TensorFiles& files_;
  TensorNaming naming_;
  IgnoreRules rules_;
  Binding binding_;
  std::string stored_;                   // the current module as the files spell it
  std::string key_;                      // a tensor's name, kept to save allocations
  std::vector<std::vector<bool>> used_;  // [files][entries]
  std::vector<ShapeTensor> shapes_;
  std::array<Skipped, kSkipReasons> skipped_;
  Surprise quantised_though_ignored_;
  Surprise plain_though_not_ignored_;
  std::int64_t bf16_router_biases_ = 0;
  std::int64_t realigned_bytes_ = 0;
};

}  // namespace

Result<Binding> bind(const ModelConfig& config, const TensorFiles& files) {
  TS_TRY(IgnoreRules rules, IgnoreRules::compile(config.quantisation.ignore, "config.json"));
  return Binder(config, files, std::move(rules)).run();
}

}  // namespace tessera
