package main

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"slices"
)

// small is the same picture with 256 colours at the most: those that most of its points have. Others become the nearest of these.
func small(file []byte) ([]byte, error) {
	from, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	bounds := from.Bounds()
	points := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(from.At(x, y)).(color.RGBA) }
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			points[at(x, y)]++
		}
	}
	var colours []color.RGBA
	for c := range points {
		colours = append(colours, c)
	}
	key := func(c color.RGBA) uint32 { return uint32(c.R)<<16 | uint32(c.G)<<8 | uint32(c.B) }
	slices.SortFunc(colours, func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(points[b], points[a]), cmp.Compare(key(a), key(b)))
	})
	var palette color.Palette
	for _, c := range colours[:min(len(colours), 256)] {
		palette = append(palette, c)
	}
	index := map[color.RGBA]uint8{}
	for _, c := range colours {
		index[c] = uint8(palette.Index(c))
	}
	to := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			to.SetColorIndex(x, y, index[at(x, y)])
		}
	}
	var out bytes.Buffer
	e := png.Encoder{CompressionLevel: png.BestCompression}
	if err := e.Encode(&out, to); err != nil {
		return nil, err
	}
	if out.Len() > maxBytes {
		return nil, fmt.Errorf("the picture has %d bytes, want %d at the most", out.Len(), maxBytes)
	}
	return out.Bytes(), nil
}
