package console

// pages are all pages, in the order of the menu.
func pages() []page {
	return []page{
		overviewPage(),
		clusterPage(),
		nodePage(),
		pendingPage(),
		podPage(),
		podGroupsPage(),
		podGroupPage(),
		workloadPage(),
		decisionsPage(),
		preemptionsPage(),
		workersPage(),
		pluginsPage(),
		configurationPage(),
		whatIfPage(),
	}
}
