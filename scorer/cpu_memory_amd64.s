#include "go_asm.h"
#include "textflag.h"

// Eight rows at a time, each operation as in the generic loops of cpu_memory.go: the same rounding, so the
// same scores. What comes out for rows without a node is never read.

DATA one<>+0(SB)/8, $1.0
GLOBL one<>(SB), RODATA|NOPTR, $8
DATA half<>+0(SB)/8, $0.5
GLOBL half<>(SB), RODATA|NOPTR, $8
DATA hundred<>+0(SB)/8, $100.0
GLOBL hundred<>(SB), RODATA|NOPTR, $8
DATA fifty<>+0(SB)/8, $50
GLOBL fifty<>(SB), RODATA|NOPTR, $8
DATA magnitude<>+0(SB)/8, $0x7fffffffffffffff
GLOBL magnitude<>(SB), RODATA|NOPTR, $8

DATA hundred32<>+0(SB)/4, $0x42c80000
GLOBL hundred32<>(SB), RODATA|NOPTR, $4
DATA fifty32<>+0(SB)/4, $0x42480000
GLOBL fifty32<>(SB), RODATA|NOPTR, $4
DATA slack<>+0(SB)/4, $0x3a800000
GLOBL slack<>(SB), RODATA|NOPTR, $4
DATA magnitude32<>+0(SB)/4, $0x7fffffff
GLOBL magnitude32<>(SB), RODATA|NOPTR, $4

// func scoresAVX512(p *cpuMemory, from int, into []int64)
//
// It divides by multiplying. y is 1/capacity, by two steps of Newton's from 14 bits, and wrong by less than 2⁻⁵² of
// itself. So q = n·y is off by less than three units of its last place, and q + (n - q·capacity)·y, whose inner part
// is exact, is n/capacity before it is rounded, but for less than 2⁻⁵⁰ such units. n/capacity is 2⁻⁴⁸ such units
// or more away from where the rounding turns, for a capacity is an integer below 2⁴⁷, and a share above 1 counts as 1.
// So the result is the quotient that a division gives.
TEXT ·scoresAVX512(SB), NOSPLIT, $0-40
	MOVQ p+0(FP), BX
	MOVQ from+8(FP), AX
	MOVQ into_base+16(FP), DI
	MOVQ into_len+24(FP), CX
	MOVQ (cpuMemory_all+0)(BX), R8
	MOVQ (cpuMemory_all+24)(BX), R9
	MOVQ (cpuMemory_nonZero+0)(BX), R10
	MOVQ (cpuMemory_nonZero+24)(BX), R11
	MOVQ (cpuMemory_requested+0)(BX), R12
	MOVQ (cpuMemory_requested+24)(BX), R13
	MOVQ cpuMemory_balance(BX), SI
	LEAQ (R8)(AX*8), R8
	LEAQ (R9)(AX*8), R9
	LEAQ (R10)(AX*8), R10
	LEAQ (R11)(AX*8), R11
	LEAQ (R12)(AX*8), R12
	LEAQ (R13)(AX*8), R13
	ADDQ AX, SI
	VPBROADCASTQ (cpuMemory_leastRequest+0)(BX), Z16
	VPBROADCASTQ (cpuMemory_leastRequest+8)(BX), Z17
	VPBROADCASTQ (cpuMemory_balanceRequest+0)(BX), Z18
	VPBROADCASTQ (cpuMemory_balanceRequest+8)(BX), Z19
	VPBROADCASTQ cpuMemory_leastWeight(BX), Z20
	VPBROADCASTQ cpuMemory_balanceWeight(BX), Z21
	VBROADCASTSD hundred<>(SB), Z22
	VBROADCASTSD one<>(SB), Z23
	VBROADCASTSD half<>(SB), Z24
	VPBROADCASTQ magnitude<>(SB), Z25
	VPBROADCASTQ fifty<>(SB), Z26
	VPXORQ Z27, Z27, Z27
	XORQ AX, AX

scores:
	CMPQ AX, CX
	JGE  scoresDone
	VMOVDQU64 (R8)(AX*8), Z0        // capacities
	VMOVDQU64 (R9)(AX*8), Z1
	VCVTQQ2PD Z0, Z2
	VCVTQQ2PD Z1, Z3
	VRCP14PD Z2, Z4                 // y
	VRCP14PD Z3, Z5
	VMOVAPD Z23, Z6
	VMOVAPD Z23, Z7
	VFNMADD231PD Z2, Z4, Z6
	VFNMADD231PD Z3, Z5, Z7
	VFMADD231PD Z6, Z4, Z4
	VFMADD231PD Z7, Z5, Z5
	VMOVAPD Z23, Z6
	VMOVAPD Z23, Z7
	VFNMADD231PD Z2, Z4, Z6
	VFNMADD231PD Z3, Z5, Z7
	VFMADD231PD Z6, Z4, Z4
	VFMADD231PD Z7, Z5, Z5
	VPSUBQ (R10)(AX*8), Z0, Z6      // less what is in use, less the request
	VPSUBQ (R11)(AX*8), Z1, Z7
	VPSUBQ Z16, Z6, Z6
	VPSUBQ Z17, Z7, Z7
	VPMAXSQ Z27, Z6, Z6
	VPMAXSQ Z27, Z7, Z7
	VCVTQQ2PD Z6, Z6
	VCVTQQ2PD Z7, Z7
	VMULPD Z22, Z6, Z6              // n
	VMULPD Z22, Z7, Z7
	VMULPD Z4, Z6, Z8               // q
	VMULPD Z5, Z7, Z9
	VFNMADD231PD Z2, Z8, Z6
	VFNMADD231PD Z3, Z9, Z7
	VFMADD231PD Z4, Z6, Z8
	VFMADD231PD Z5, Z7, Z9
	VCVTTPD2QQ Z8, Z8
	VCVTTPD2QQ Z9, Z9
	VPADDQ Z9, Z8, Z8
	VPSRLQ $1, Z8, Z8
	VPMULLQ Z20, Z8, Z8
	VPADDQ (R12)(AX*8), Z18, Z6     // in use, with the request
	VPADDQ (R13)(AX*8), Z19, Z7
	VCVTQQ2PD Z6, Z6                // n
	VCVTQQ2PD Z7, Z7
	VMULPD Z4, Z6, Z9               // q
	VMULPD Z5, Z7, Z10
	VFNMADD231PD Z2, Z9, Z6
	VFNMADD231PD Z3, Z10, Z7
	VFMADD231PD Z4, Z6, Z9          // share
	VFMADD231PD Z5, Z7, Z10
	VMINPD Z23, Z9, Z9
	VMINPD Z23, Z10, Z10
	VSUBPD Z10, Z9, Z9              // deviation
	VMULPD Z24, Z9, Z9
	VPANDQ Z25, Z9, Z9
	VSUBPD Z9, Z23, Z9              // balance
	VMULPD Z22, Z9, Z9
	VCVTTPD2QQ Z9, Z9
	VPMOVZXBQ (SI)(AX*1), Z10
	VPSUBQ Z10, Z9, Z9
	VPADDQ Z26, Z9, Z9
	VPSRLQ $1, Z9, Z9
	VPADDQ Z26, Z9, Z9
	VPMULLQ Z21, Z9, Z9
	VPADDQ Z9, Z8, Z8
	VMOVDQU64 Z8, (DI)(AX*8)
	ADDQ $8, AX
	JMP scores

scoresDone:
	VZEROUPPER
	RET

// func ceilingsAVX512(p *cpuMemory, from int, into []int64)
//
// Sixteen rows at a time. Products and sums are not rounded between, which slack allows for.
TEXT ·ceilingsAVX512(SB), NOSPLIT, $0-40
	MOVQ p+0(FP), BX
	MOVQ from+8(FP), AX
	MOVQ into_base+16(FP), DI
	MOVQ into_len+24(FP), CX
	MOVQ cpuMemory_balance(BX), SI
	MOVQ cpuMemory_shares(BX), DX
	MOVQ (shares_free+0)(DX), R8
	MOVQ (shares_free+24)(DX), R9
	MOVQ (shares_inverse+0)(DX), R10
	MOVQ (shares_inverse+24)(DX), R11
	MOVQ shares_skew(DX), R12
	LEAQ (R8)(AX*4), R8
	LEAQ (R9)(AX*4), R9
	LEAQ (R10)(AX*4), R10
	LEAQ (R11)(AX*4), R11
	LEAQ (R12)(AX*4), R12
	ADDQ AX, SI
	VBROADCASTSS (cpuMemory_leastAmounts+0)(BX), Z16
	VBROADCASTSS (cpuMemory_leastAmounts+4)(BX), Z17
	VBROADCASTSS (cpuMemory_balanceAmounts+0)(BX), Z18
	VBROADCASTSS (cpuMemory_balanceAmounts+4)(BX), Z19
	VPBROADCASTD cpuMemory_leastTimes(BX), Z20
	VPBROADCASTD cpuMemory_balanceTimes(BX), Z21
	VBROADCASTSS hundred32<>(SB), Z22
	VBROADCASTSS fifty32<>(SB), Z23
	VBROADCASTSS slack<>(SB), Z24
	VADDPS Z24, Z22, Z25
	VPBROADCASTD magnitude32<>(SB), Z26
	VPBROADCASTD fifty<>(SB), Z27
	VPXORQ Z28, Z28, Z28
	XORQ AX, AX

ceilings:
	CMPQ AX, CX
	JGE  ceilingsDone
	VMOVUPS (R10)(AX*4), Z0         // 1 / capacity
	VMOVUPS (R11)(AX*4), Z1
	VMOVUPS (R8)(AX*4), Z2          // free, less the request
	VMOVUPS (R9)(AX*4), Z3
	VFNMADD231PS Z16, Z0, Z2
	VFNMADD231PS Z17, Z1, Z3
	VMAXPS Z28, Z2, Z2
	VMAXPS Z28, Z3, Z3
	VFMADD213PS Z24, Z22, Z2        // hundredths
	VFMADD213PS Z24, Z22, Z3
	VCVTTPS2DQ Z2, Z2
	VCVTTPS2DQ Z3, Z3
	VPADDD Z3, Z2, Z2
	VPSRLD $1, Z2, Z2
	VPMULLD Z20, Z2, Z2
	VMOVUPS (R12)(AX*4), Z4         // skew, with the request
	VFMADD231PS Z18, Z0, Z4
	VFNMADD231PS Z19, Z1, Z4
	VPANDD Z26, Z4, Z4
	VMOVAPS Z25, Z5                 // balance
	VFNMADD231PS Z23, Z4, Z5
	VCVTTPS2DQ Z5, Z5
	VPMOVZXBD (SI)(AX*1), Z6
	VPSUBD Z6, Z5, Z5
	VPADDD Z27, Z5, Z5
	VPSRLD $1, Z5, Z5
	VPADDD Z27, Z5, Z5
	VPMULLD Z21, Z5, Z5
	VPADDD Z5, Z2, Z2
	VPMOVSXDQ Y2, Z3
	VEXTRACTI64X4 $1, Z2, Y2
	VPMOVSXDQ Y2, Z2
	VMOVDQU64 Z3, (DI)(AX*8)
	VMOVDQU64 Z2, 64(DI)(AX*8)
	ADDQ $16, AX
	JMP ceilings

ceilingsDone:
	VZEROUPPER
	RET

// func passAVX512(into []uint64, scores []int64, ties []uint64, score int64, tie uint64)
TEXT ·passAVX512(SB), NOSPLIT, $0-88
	MOVQ into_base+0(FP), DI
	MOVQ into_len+8(FP), CX
	MOVQ scores_base+24(FP), R8
	MOVQ ties_base+48(FP), R9
	VPBROADCASTQ score+72(FP), Z16
	VPBROADCASTQ tie+80(FP), Z17
	SHLQ $3, CX                     // bytes of into
	XORQ AX, AX

pass:
	CMPQ AX, CX
	JGE  passDone
	VMOVDQU64 (R8), Z0
	VPCMPQ $6, Z16, Z0, K1          // score above the bar's
	VPCMPEQQ Z16, Z0, K2            // at it
	VPCMPUQ $5, (R9), Z17, K2, K2   // and the tie not above the bar's
	KORB K1, K2, K1
	KMOVB K1, (DI)(AX*1)
	ADDQ $64, R8
	ADDQ $64, R9
	INCQ AX
	JMP pass

passDone:
	VZEROUPPER
	RET
