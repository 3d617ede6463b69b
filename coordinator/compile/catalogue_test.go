package compile

// Catalogue is what tests take from the catalogue of rules. Its package imports this one, so that main_test.go gives it.
var Catalogue struct {
	NewProfile    func(ProfileConfig) (*Profile, error)
	DefaultConfig func(string) ProfileConfig
}

func newProfile(c ProfileConfig) (*Profile, error) { return Catalogue.NewProfile(c) }

func DefaultConfig(name string) ProfileConfig { return Catalogue.DefaultConfig(name) }

func DefaultProfile(name string) *Profile {
	p, err := newProfile(DefaultConfig(name))
	if err != nil {
		panic(err)
	}
	return p
}
