// wgmma instructions (sm_90a), f32 accumulators. An instruction names every register that it adds to, so the
// lists of them are macros, each the next shorter one and sixteen or eight more; operand type and order of B
// are text that the template fills in.
//
// A warpgroup (4 warps) multiplies A [64, k] by B [k, n] and adds to D [64, n], asynchronously; k is 32 bytes
// of operands. keep = 0 clears D first. D in registers: warp w, lane l, d[4 i + e]: row 16 w + l / 4 + 8 (e /
// 2), column 8 i + 2 (l % 4) + e % 2. A in registers, 4 bytes each: a[0], a[1] rows l / 4, + 8 at byte 4 (l %
// 4) of the 32; a[2], a[3] 16 bytes further. A in shared memory lies with the k direction contiguous.
#pragma once

#include <cstdint>

namespace tessera::cuda {

struct Bf16 {};  // tags of the operand type
struct F16 {};
struct E4m3 {};

// How B lies in shared memory: with the k direction contiguous (the only way for 8-bit operands), or the
// columns.
enum class WgmmaB : std::uint8_t { kAlongK, kAlongColumns };

template <class Operand>
struct WgmmaText;
template <>
struct WgmmaText<Bf16> {
  static constexpr char kType[] = "k16.f32.bf16.bf16";
};
template <>
struct WgmmaText<F16> {
  static constexpr char kType[] = "k16.f32.f16.f16";
};
template <>
struct WgmmaText<E4m3> {
  static constexpr char kType[] = "k32.f32.e4m3.e4m3";
};
// What follows the two sign operands: nothing for 8-bit operands; for others the order of A, if it lies in
// shared memory, and of B.
template <class Operand, WgmmaB kB>
struct WgmmaOrder {
  static constexpr char kA[] = ", 0";
  static constexpr char kOfB[] = ", 0";
};
template <class Operand>
struct WgmmaOrder<Operand, WgmmaB::kAlongColumns> {
  static constexpr char kA[] = ", 0";
  static constexpr char kOfB[] = ", 1";
};
template <>
struct WgmmaOrder<E4m3, WgmmaB::kAlongK> {
  static constexpr char kA[] = "";
  static constexpr char kOfB[] = "";
};

// %0 .. %n - 1, and the accumulators that they stand for.
#define TS_SUM_TEXT_4 "%0, %1, %2, %3"
#define TS_SUM_TEXT_8 TS_SUM_TEXT_4 ", %4, %5, %6, %7"
#define TS_SUM_TEXT_16 TS_SUM_TEXT_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define TS_SUM_TEXT_24 TS_SUM_TEXT_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define TS_SUM_TEXT_32 TS_SUM_TEXT_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define TS_SUM_TEXT_40 TS_SUM_TEXT_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define TS_SUM_TEXT_48 TS_SUM_TEXT_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define TS_SUM_TEXT_56 TS_SUM_TEXT_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define TS_SUM_TEXT_64 TS_SUM_TEXT_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define TS_SUM_TEXT_96                                                                                \
  TS_SUM_TEXT_64                                                                                      \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, " \
  "%83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define TS_SUM_TEXT_128                                                                                  \
  TS_SUM_TEXT_96                                                                                         \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, " \
  "%113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define TS_SUMS_AT_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define TS_SUMS_AT_8(i) TS_SUMS_AT_4(i), TS_SUMS_AT_4(i + 4)
#define TS_SUMS_AT_32(i) TS_SUMS_AT_8(i), TS_SUMS_AT_8(i + 8), TS_SUMS_AT_8(i + 16), TS_SUMS_AT_8(i + 24)
#define TS_SUMS_4 TS_SUMS_AT_4(0)
#define TS_SUMS_8 TS_SUMS_AT_8(0)
#define TS_SUMS_16 TS_SUMS_8, TS_SUMS_AT_8(8)
#define TS_SUMS_24 TS_SUMS_16, TS_SUMS_AT_8(16)
#define TS_SUMS_32 TS_SUMS_24, TS_SUMS_AT_8(24)
#define TS_SUMS_40 TS_SUMS_32, TS_SUMS_AT_8(32)
#define TS_SUMS_48 TS_SUMS_40, TS_SUMS_AT_8(40)
#define TS_SUMS_56 TS_SUMS_48, TS_SUMS_AT_8(48)
#define TS_SUMS_64 TS_SUMS_56, TS_SUMS_AT_8(56)
#define TS_SUMS_96 TS_SUMS_64, TS_SUMS_AT_32(64)
#define TS_SUMS_128 TS_SUMS_96, TS_SUMS_AT_32(96)

// `columns` columns, `sums` accumulators; then the places of a, b, keep, the type, the order of A and of B.
#define TS_WGMMA_SS(columns, sums, at_a, at_b, at_keep, at_type, at_order_a, at_order_b)                  \
  template <class Operand, WgmmaB kB>                                                                     \
  __device__ __forceinline__ void wgmma_ss(float(&d)[sums], std::uint64_t a, std::uint64_t b, int keep) { \
    asm volatile(                                                                                         \
        "{\n"                                                                                             \
        ".reg .pred p;\n"                                                                                 \
        "setp.ne.b32 p, %" #at_keep                                                                       \
        ", 0;\n"                                                                                          \
        "wgmma.mma_async.sync.aligned.m64n" #columns "%" #at_type " {" TS_SUM_TEXT_##sums                 \
        "}, "                                                                                             \
        "%" #at_a ", %" #at_b ", p, 1, 1%" #at_order_a "%" #at_order_b                                    \
        ";\n"                                                                                             \
        "}\n"                                                                                             \
        : TS_SUMS_##sums                                                                                  \
        : "l"(a), "l"(b), "r"(keep), "C"(WgmmaText<Operand>::kType), "C"(WgmmaOrder<Operand, kB>::kA),    \
          "C"(WgmmaOrder<Operand, kB>::kOfB));                                                            \
  }
// A in registers: the places of its four, of b, keep, the type and the order of B.
#define TS_WGMMA_RS(columns, sums, a0, a1, a2, a3, at_b, at_keep, at_type, at_order_b)                   \
  template <class Operand, WgmmaB kB>                                                                    \
  __device__ __forceinline__ void wgmma_rs(float(&d)[sums], const std::uint32_t(&a)[4], std::uint64_t b, \
                                           int keep) {                                                   \
    asm volatile(                                                                                        \
        "{\n"                                                                                            \
        ".reg .pred p;\n"                                                                                \
        "setp.ne.b32 p, %" #at_keep                                                                      \
        ", 0;\n"                                                                                         \
        "wgmma.mma_async.sync.aligned.m64n" #columns "%" #at_type " {" TS_SUM_TEXT_##sums                \
        "}, "                                                                                            \
        "{%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #at_b ", p, 1, 1%" #at_order_b                     \
        ";\n"                                                                                            \
        "}\n"                                                                                            \
        : TS_SUMS_##sums                                                                                 \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep), "C"(WgmmaText<Operand>::kType), \
          "C"(WgmmaOrder<Operand, kB>::kOfB));                                                           \
  }

TS_WGMMA_SS(64, 32, 32, 33, 34, 35, 36, 37)
TS_WGMMA_SS(128, 64, 64, 65, 66, 67, 68, 69)
TS_WGMMA_SS(192, 96, 96, 97, 98, 99, 100, 101)
TS_WGMMA_SS(256, 128, 128, 129, 130, 131, 132, 133)
TS_WGMMA_RS(8, 4, 4, 5, 6, 7, 8, 9, 10, 11)
TS_WGMMA_RS(16, 8, 8, 9, 10, 11, 12, 13, 14, 15)
TS_WGMMA_RS(32, 16, 16, 17, 18, 19, 20, 21, 22, 23)
TS_WGMMA_RS(48, 24, 24, 25, 26, 27, 28, 29, 30, 31)
TS_WGMMA_RS(64, 32, 32, 33, 34, 35, 36, 37, 38, 39)
TS_WGMMA_RS(80, 40, 40, 41, 42, 43, 44, 45, 46, 47)
TS_WGMMA_RS(96, 48, 48, 49, 50, 51, 52, 53, 54, 55)
TS_WGMMA_RS(112, 56, 56, 57, 58, 59, 60, 61, 62, 63)
TS_WGMMA_RS(128, 64, 64, 65, 66, 67, 68, 69, 70, 71)

#undef TS_SUM_TEXT_4
#undef TS_SUM_TEXT_8
#undef TS_SUM_TEXT_16
#undef TS_SUM_TEXT_24
#undef TS_SUM_TEXT_32
#undef TS_SUM_TEXT_40
#undef TS_SUM_TEXT_48
#undef TS_SUM_TEXT_56
#undef TS_SUM_TEXT_64
#undef TS_SUM_TEXT_96
#undef TS_SUM_TEXT_128
#undef TS_SUMS_AT_4
#undef TS_SUMS_AT_8
#undef TS_SUMS_AT_32
#undef TS_SUMS_4
#undef TS_SUMS_8
#undef TS_SUMS_16
#undef TS_SUMS_24
#undef TS_SUMS_32
#undef TS_SUMS_40
#undef TS_SUMS_48
#undef TS_SUMS_56
#undef TS_SUMS_64
#undef TS_SUMS_96
#undef TS_SUMS_128
#undef TS_WGMMA_SS
#undef TS_WGMMA_RS

}  // namespace tessera::cuda
